// Listens for the keys of an open lesson: N and B go on and back, a digit chooses
// that option of the first open question.
import { closest, keyOf } from '../../lib/dom.js';
import { TYPING } from '../../player/key_listener.js';

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
    if (key === 'n') next();
    else if (key === 'b') back();
    else if (/^[1-9]$/.test(key) && choice.length) choice[0].children[Number(key) - 1]?.click();
    else return;
    event.preventDefault();
  });
}
