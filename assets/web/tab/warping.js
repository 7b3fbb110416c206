// Turns logits into probabilities and draws tokens from them, as engine/sampling/warping.py does: fp32 at the same
// places, because a draw that falls between two tokens must fall on the same side.

const { fround } = Math;
const GUESS = 128; // candidates ranked for top-p before a whole row is sorted

/** @typedef {{ temperature: number, top_k: number, top_p: number, min_p: number }} Sampling */

/** @param {Float32Array} row */
function bestOf(row) {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i] > row[best]) best = i;
  return best;
}

/** The k largest values of a row and their ids, the largest first; of equals the first one.
 * @param {Float32Array} row @param {number} k */
export function topOf(row, k) {
  const size = Math.min(k, row.length),
    values = new Float32Array(size).fill(-Infinity),
    ids = new Int32Array(size);
  let count = 0;
  for (let i = 0; i < row.length; i++) {
    const value = row[i];
    if (count === size && !(value > values[size - 1])) continue;
    let at = Math.min(count, size - 1);
    for (; at > 0 && values[at - 1] < value; at--) {
      values[at] = values[at - 1];
      ids[at] = ids[at - 1];
    }
    values[at] = value;
    ids[at] = i;
    count = Math.min(count + 1, size);
  }
  return { values, ids };
}

/** @param {Float32Array} row @param {number} k */
const highestValues = (row, k) => (k > GUESS ? row.slice().sort().reverse().subarray(0, k) : topOf(row, k).values);

/** Makes all that ``keeps`` refuses 0, and the row's sum 1.
 * @param {Float32Array} row @param {(value: number, i: number) => boolean} keeps */
function normalise(row, keeps) {
  let total = 0;
  for (let i = 0; i < row.length; i++) {
    if (!keeps(row[i], i)) row[i] = 0;
    total += row[i];
  }
  const sum = fround(total);
  for (let i = 0; i < row.length; i++) row[i] /= sum;
}

/** Which tokens top-p keeps, as a function: each stays while it and all less likely ones together have more than
 * 1 - ``most`` of the mass, and of equals the last ones.
 * @param {Float32Array} scores @param {Float32Array} row their probabilities @param {number} most */
function nucleusOf(scores, row, most) {
  const total = row.reduce((sum, mass) => sum + mass, 0),
    least = fround(1 - most);
  let last = -Infinity,
    surplus = 0;
  for (const guess of [GUESS, row.length]) {
    const values = highestValues(scores, guess),
      masses = highestValues(row, guess);
    let size = 0;
    for (let sum = masses[0]; fround(total - sum + masses[size]) > least; sum += masses[size]) size++;
    if (size === values.length && size < row.length) continue;
    last = values[Math.max(size, 1) - 1];
    surplus = scores.reduce((count, score) => count + Number(score >= last), -Math.max(size, 1));
    break;
  }
  return (/** @type {number} */ _, /** @type {number} */ i) =>
    scores[i] > last || (scores[i] === last && surplus-- <= 0);
}

/** One row of logits becomes one of probabilities, in its own place.
 * @param {Float32Array} row @param {Sampling} sampling */
export function warp(row, { temperature, top_k, top_p, min_p }) {
  if (!temperature) {
    const best = bestOf(row);
    row.fill(0);
    row[best] = 1;
    return row;
  }
  const scale = fround(temperature);
  let kth = -Infinity,
    largest = -Infinity;
  for (let i = 0; i < row.length; i++) {
    row[i] /= scale;
    if (row[i] > largest) largest = row[i];
  }
  if (top_k > 0 && top_k < row.length) kth = highestValues(row, top_k)[top_k - 1];
  for (let i = 0; i < row.length; i++) if (row[i] < kth) row[i] = -Infinity;
  const scores = top_p < 1 ? row.slice() : row;
  for (let i = 0; i < row.length; i++) row[i] = Math.exp(fround(row[i] - largest));
  normalise(row, () => true);
  if (top_p < 1) normalise(row, nucleusOf(scores, row, top_p));
  if (min_p > 0) {
    const floor = fround(row[bestOf(row)] * fround(min_p));
    normalise(row, value => value >= floor);
  }
  return row;
}

/** max(p − q, 0), normalised; p itself where that is 0 everywhere.
 * @param {Float32Array} p @param {number} draft the only token of q */
export function residual(p, draft) {
  const left = p.slice();
  left[draft] = Math.max(left[draft] - 1, 0);
  let total = 0;
  for (let i = 0; i < left.length; i++) total += left[i];
  const sum = fround(total);
  if (!(sum > 0)) return p;
  for (let i = 0; i < left.length; i++) left[i] /= sum;
  return left;
}

/** Looks u up in the row's cumulative sum, scaled by its actual total; only a token of positive mass is drawn.
 * @param {Float32Array} row @param {number} u */
export function draw(row, u) {
  let total = 0;
  for (let i = 0; i < row.length; i++) total += row[i];
  const end = fround(total),
    point = Math.min(fround(u * end), below(end)); // u · total may have been rounded up to the total
  let sum = 0;
  for (let i = 0; i < row.length; i++) {
    sum += row[i];
    if (fround(sum) > point) return i;
  }
  return row.length - 1; // of a row that is not finite
}

/** The largest fp32 number below a positive one. @param {number} value */
function below(value) {
  const bits = new Int32Array(new Float32Array([value]).buffer);
  bits[0]--;
  return new Float32Array(bits.buffer)[0];
}
