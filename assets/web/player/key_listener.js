// Listens for the player's keys, which player_input.js lists, while it is in sight and the focus is not in a text field.

import { keyOf } from '../lib/dom.js';

export const TYPING =
  'input, textarea, select, [contenteditable=""], [contenteditable="true"], [role="listbox"], [role="slider"], dialog';
const SLIDING = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', 'PageUp', 'PageDown'];
export const PRESSABLE = 'button, a, summary, [role="button"], [role="tab"], [role="checkbox"], [role="option"]';

// ``actions``: a function for each key. The listener stays as long as the page.
export function listenForShortcuts(root, actions) {
  const inSight = () => {
    const { top, bottom, height } = root.getBoundingClientRect();
    return height > 0 && bottom > 0 && top < window.innerHeight;
  };
  document.addEventListener('keydown', event => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !root.isConnected) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (!inSight() && !root.contains(target)) return;
    const slider = target.closest('.sl-player input[type="range"]');
    if (slider ? SLIDING.includes(event.key) : target.closest(TYPING)) return;
    if (event.key === ' ' && target.closest(PRESSABLE) && !target.closest('.sl-rows')) return; // Space presses it
    const action = actions[keyOf(event)];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
