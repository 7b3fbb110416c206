// Presents the page: a class of its body, which present.css reads. A button and the key P switch it, Escape leaves it.
import { closest, keyOf } from './dom.js';

const TYPING_HERE = 'input:not([type="range"]), textarea, select, [contenteditable="true"], [role="listbox"], dialog';
const IN_FRONT = 'dialog[open], [data-chosen="locked"], #drawer.sl-open'; // what Escape closes or unlocks first

/** The keys work while the button is on the page. Returns the function that begins or leaves a presentation.
 * @param {HTMLElement} button */
export function makePresenting(button) {
  const isOn = () => document.body.classList.contains('sl-present');

  /** @param {boolean} on */
  function show(on) {
    document.body.classList.toggle('sl-present', on);
    button.setAttribute('aria-pressed', String(on));
    button.textContent = on ? 'Leave presentation' : 'Present';
    if (on) window.scrollTo(0, 0); // the page has another height, and its title would be out of sight
    window.dispatchEvent(new Event('resize')); // charts measure themselves again
  }
  button.addEventListener('click', () => show(!isOn()));

  document.addEventListener('keydown', event => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !button.isConnected) return;
    if (keyOf(event) !== 'p' || closest(event.target, TYPING_HERE)) return;
    event.preventDefault();
    show(!isOn());
  });

  // Escape first closes a dialog or unlocks a token, then leaves; what another tab holds does not count. Before
  // the player, which takes every Escape.
  document.addEventListener(
    'keydown',
    event => {
      if (event.key !== 'Escape' || !button.isConnected || !isOn()) return;
      if (
        closest(event.target, TYPING_HERE) ||
        [...document.querySelectorAll(IN_FRONT)].some(node => node.checkVisibility())
      )
        return;
      show(false);
    },
    { capture: true },
  );
  return show;
}
