// Keeps the v(W) of the reader's own machine, which the Lab has read from a benchmark (servers/curve_reader.py), in this
// browser alone. The theory, the answer and the lessons take it in place of the recorded one.
import { readObject, storeObject } from './storage.js';

const KEY = 'speclens-curve',
  EVENT = 'speclens-curve';

/** ``v``: the cost of a pass by its rows; ``round``: the same with what a round with drafts costs at all, for one user;
 * ``c``: the cost of a draft step, null where it is not known; ``words``: where the curve is from; ``text``: the text
 * that the server read.
 * @typedef {{ v: Record<string, number>, round: Record<string, number>, c: number | null, widest: number,
 *   source: string, words: string, note: string, text: string }} Curve */

const isCosts = costs =>
  typeof costs === 'object' &&
  costs?.[1] === 1 &&
  Object.values(costs).every(cost => Number.isFinite(cost) && cost > 0);

/** @param {any} curve @returns {Curve | null} */
const sound = curve => (isCosts(curve.v) && isCosts(curve.round) ? curve : null);

let curve = sound(readObject(KEY)); // also where nothing can be stored

export const ownCurve = () => curve;

/** @param {Curve | null} newest null goes back to the recorded costs */
export function keepCurve(newest) {
  curve = newest;
  storeObject(KEY, newest ?? {});
  document.dispatchEvent(new CustomEvent(EVENT));
}

/** Calls ``changed`` whenever another curve is kept, as long as the node is on the page.
 * @param {Node} node @param {() => void} changed */
export function onCurve(node, changed) {
  let wasThere = node.isConnected;
  const listen = () => {
    if (wasThere && !node.isConnected) document.removeEventListener(EVENT, listen);
    else changed();
    wasThere ||= node.isConnected;
  };
  document.addEventListener(EVENT, listen);
}
