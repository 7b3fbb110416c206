// Puts a step's tool into the large half, in place of the run; on a phone it stays in the text. A step with a token to
// press needs both.
import { makeFind } from '../../lib/dom.js';

const wide = matchMedia('(min-width: 1001px)');

/** @param {HTMLElement} frame @param {() => boolean} needsRun whether the step has a token to press */
export function makeToolPlace(frame, needsRun) {
  const box = makeFind(frame)('.sl-lesson-tool');

  // ``isNew``: the step is another one, and with it the tool; otherwise the page has another width.
  function put(isNew = true) {
    const place = frame.querySelector('.sl-tool-place'),
      isAlone = Boolean(place) && !needsRun(),
      tool = place?.firstChild ?? (isNew ? null : box.firstChild);
    frame.toggleAttribute('data-tool', isAlone);
    box.replaceChildren();
    if (tool) (isAlone && wide.matches ? box : place).append(tool);
  }
  wide.addEventListener('change', () => put(false));
  return put;
}
