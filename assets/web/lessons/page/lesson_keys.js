// Listens for the keys of an open lesson: N and B go on and back, a digit chooses
// that option of the first open question, and Enter goes to the first control of the step.
import { closest, keyOf } from '../../lib/dom.js';
import { PRESSABLE, TYPING } from '../../player/key_listener.js';

// The controls without a key of their own; options have digits.
const CONTROLS = `.sl-lesson-body :is(.sl-question :is(input, .sl-buttons button), [role="slider"]),
  .sl-figure-box :is(button:not(.sl-option), input, select)`;

/** @param {HTMLElement & { disabled?: boolean, readOnly?: boolean }} node */
const isUsable = node => node.checkVisibility() && !node.disabled && !node.readOnly;

// ``isOpen()``: whether a lesson is open, not the list.
export function listenForKeys(element, { isOpen, next, back }) {
  const body = element.querySelector('.sl-lesson-open');
  document.addEventListener('keydown', event => {
    if (
      event.defaultPrevented ||
      event.repeat || // a key that is held down is one hand, not many
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      !element.isConnected ||
      !element.offsetParent ||
      !isOpen()
    )
      return;
    if (closest(event.target, TYPING)) return;
    const key = keyOf(event),
      choice = body.querySelectorAll('.sl-question:not([hidden], :has(.sl-reply[data-right="true"])) .sl-options');
    if (key === 'enter') {
      /** @type {HTMLElement[]} */
      const controls = [...body.querySelectorAll(CONTROLS)];
      const control = controls.find(isUsable);
      if (!control || closest(event.target, `${PRESSABLE}, .sl-rows`)) return; // Enter presses it
      control.focus();
    } else if (key === 'n') next();
    else if (key === 'b') back();
    else if (/^[1-9]$/.test(key) && choice.length) choice[0].children[Number(key) - 1]?.click();
    else return;
    event.preventDefault();
  });
}
