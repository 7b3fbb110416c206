// Moves among the tokens inside ``frame`` by pointer and arrow keys: hovering or focusing a token previews it.
import { closest } from '../lib/dom.js';

// ``tokenOf(element)``: its token, if it shows one; ``neighbour(element, key)``: the element an arrow key leads to;
// ``entrance()``: the element where the keyboard enters; ``leave()``: Escape was pressed.
export function navigateRows(frame, { tokenOf, neighbour, entrance, preview, hide, leave }) {
  const elementAt = node => closest(node, '.sl-token');
  const tokenAt = node => tokenOf(elementAt(node));

  frame.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inside = tokenAt(event.target),
      arrow = event.key.startsWith('Arrow');
    if (inside && event.key === 'Escape') {
      event.preventDefault();
      hide();
      return leave();
    }
    if (!(inside ? arrow : ['ArrowDown', 'Enter'].includes(event.key))) return;
    event.preventDefault();
    (inside ? neighbour(elementAt(event.target), event.key) : entrance())?.focus();
  });
  // Space is the player's; without this it would also press the token.
  frame.addEventListener('keyup', event => {
    if (event.key === ' ') event.preventDefault();
  });
  // A click must leave the keyboard neither inside a token, because arrows would
  // move among tokens, nor in a text field.
  frame.addEventListener('mousedown', event => {
    if (tokenAt(event.target)) {
      event.preventDefault();
      frame.focus({ preventScroll: true, focusVisible: false });
    }
  });

  // Only a mouse that is moved points at anything: rows that scroll beneath a resting one send "over", but not "move".
  let pointed = null,
    mouse = '';
  const where = event => `${event.screenX} ${event.screenY}`;
  function rest() {
    pointed = null;
    if (frame.contains(document.activeElement) && tokenAt(document.activeElement)) preview(document.activeElement);
    else hide();
  }
  document.addEventListener(
    'mousemove',
    event => {
      mouse = where(event);
    },
    { passive: true },
  );
  frame.addEventListener('mouseover', event => {
    if (where(event) !== mouse) return;
    if (pointed && tokenAt(event.target) === pointed)
      preview(elementAt(event.target)); // the row was drawn again
    else rest();
  });
  frame.addEventListener('mousemove', event => {
    const token = tokenAt(event.target);
    if (closest(event.target, '.sl-tag')) return; // meanings.js speaks of it
    if (!token) return rest();
    if (token !== pointed) preview(elementAt(event.target));
    pointed = token;
  });
  frame.addEventListener('mouseleave', rest);
  frame.addEventListener('focusin', event => {
    if (tokenAt(event.target)) preview(event.target);
  });
  frame.addEventListener('focusout', hide);
}

// The first token below the upper edge ``top``, in pixels of the window.
export const firstBelow = (frame, top) =>
  [...frame.querySelectorAll('.sl-token:not([hidden])')].find(node => node.getBoundingClientRect().top >= top);
