// Decides by rejection sampling which drafts of a chain are accepted, and draws the token that closes the round. It is
// the rule of engine/sampling/rejection.py for drafts that were copied, not drawn (q is one-hot); a test compares the
// two on a thousand rounds and more.
import { draw, residual } from './warping.js';

/**
 * @param {Float32Array[]} p [N+1] rows: row i is the target's distribution after node i, node 0 being the pending token
 * @param {number[]} tokens @param {number[]} u [N] decides about the drafts
 * @param {number[]} uClosing [N+1] by the last node
 */
export function verifyChain(p, tokens, u, uClosing) {
  const accept = tokens.map((token, i) => Math.min(1, p[i][token]));
  let last = 0;
  while (last < tokens.length && u[last] < p[last][tokens[last]]) last++;
  const row = last < tokens.length ? residual(p[last], tokens[last]) : p[last];
  return { accept, last, tested: Math.min(last + 1, tokens.length), closing: draw(row, uClosing[last]) };
}
