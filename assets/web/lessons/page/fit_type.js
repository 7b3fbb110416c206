// Fits a presented lesson to its screen: a long step gets smaller type, and one that is longer still scrolls. The output
// makes room for a token with many numbers.
import { makeFind } from '../../lib/dom.js';
import { isClass } from '../widgets/widgets.js';

const SIZES = [1, 0.95, 0.9, 0.85]; // of the room's type; smaller type could not be read in the last row

/** Returns a function that fits the step that is open now. Of the same step the type only gets smaller: growing again
 * would move what the room looks at.
 * @param {HTMLElement} root */
export function makeTypeFitter(root) {
  const find = makeFind(root);
  const panes = [
    ['.sl-lesson-open > article', '.sl-lesson-body'],
    ['.sl-lesson-open > .sl-lesson-tool', '.sl-lesson-open > .sl-lesson-tool'],
  ].map(names => names.map(name => find(name)));
  const stage = find('.sl-lesson-stage'),
    inspector = find('.sl-lesson-stage .sl-inspector');
  let waiting = 0,
    starts = true; // with the largest type again

  /** @param {HTMLElement} node */
  const isLong = node => isClass() && node.scrollHeight > node.clientHeight + 1;

  function fit() {
    if (starts) stage.removeAttribute('data-tight');
    if (isLong(inspector)) stage.setAttribute('data-tight', '');
    for (const [pane, scrolled] of panes) {
      if (starts) scrolled.scrollTop = 0;
      const now = starts ? SIZES[0] : Number(pane.style.getPropertyValue('--sl-fit') || SIZES[0]);
      for (const size of SIZES.filter(each => each <= now)) {
        pane.style.setProperty('--sl-fit', String(size));
        if (!isLong(scrolled)) break;
      }
      // Without a control inside, the keyboard could not scroll it.
      if (isLong(scrolled)) scrolled.tabIndex = 0;
      else scrolled.removeAttribute('tabindex');
    }
    starts = false;
  }

  function schedule(isNew = false) {
    starts ||= isNew;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(fit);
  }
  window.addEventListener('resize', () => schedule(true)); // as at the begin and the end of a presentation
  root.addEventListener('click', () => schedule());
  return schedule;
}
