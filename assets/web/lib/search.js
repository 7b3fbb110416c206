// Searches a list that is in order, by halves.

/** Returns the last index below ``count`` of which ``holds`` is true, 0 for none. Once it is false, it is false for
 * every later index.
 * @param {number} count @param {(index: number) => boolean} holds never asked about 0 */
export function lastWhere(count, holds) {
  let low = 0;
  let high = count;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (holds(middle)) low = middle;
    else high = middle;
  }
  return low;
}
