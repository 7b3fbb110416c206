// Shows the meaning of a mark of the legend or of a drafter's badge beside it, under the pointer, the keyboard or a
// finger, which the browser reports as a pointer. The help lists all meanings.
import { closest } from '../lib/dom.js';

/** @param {HTMLElement} root @param {{ explain: (node: HTMLElement, words: string) => void, hide: () => void }} tooltip */
export function explainMarks(root, tooltip) {
  const legend = root.querySelectorAll('.sl-rounds .sl-legend > li');
  for (const entry of legend)
    entry.querySelector('button').setAttribute('aria-description', entry.querySelector('.sl-meaning').textContent);
  root.querySelector('.sl-help .sl-legend').append(...[...legend].map(entry => entry.cloneNode(true)));

  /** @param {Event} event */
  function explain({ target }) {
    const mark = closest(target, '.sl-legend .sl-token, .sl-tag');
    const words = mark && (mark.dataset.means || mark.parentElement.querySelector('.sl-meaning')?.textContent);
    if (words) tooltip.explain(mark, words);
  }
  for (const event of ['mouseover', 'focusin', 'click']) root.addEventListener(event, explain);
  for (const event of ['mouseout', 'focusout'])
    root.addEventListener(event, ({ target }) => closest(target, '.sl-legend, .sl-tag') && tooltip.hide());
}
