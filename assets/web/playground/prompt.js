// Folds the prompt on Escape. It grows over the row below it while it has the focus.
import { closest } from '../lib/dom.js';

export function listenForPrompt() {
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && !event.isComposing) closest(event.target, '#prompt textarea')?.blur();
  });
}
