// Decides by rejection sampling which drafts of a chain are accepted, and draws the token that closes the round. It is
// the rule of engine/sampling/rejection.py, and a test compares the two on thousands of rounds.
import { draw, residual } from './warping.js';

/**
 * @param {Float32Array[]} p [N+1] rows: row i is the target's distribution after node i, node 0 being the pending token
 * @param {Float32Array[] | null} q [N] rows that the drafts were drawn from, null for one-hot
 * @param {number[]} tokens @param {number[]} u [N] decides about the drafts
 * @param {number[]} uClosing [N+1] by the last node
 */
export function verifyChain(p, q, tokens, u, uClosing) {
  const qOf = i => (q ? q[i][tokens[i]] : 1);
  const accept = tokens.map((token, i) => Math.min(1, Math.fround(p[i][token] / qOf(i))));
  let last = 0;
  while (last < tokens.length && Math.fround(u[last] * qOf(last)) < p[last][tokens[last]]) last++;
  const row = last < tokens.length ? residual(p[last], q ? q[last] : tokens[last]) : p[last];
  return { accept, last, tested: Math.min(last + 1, tokens.length), closing: draw(row, uClosing[last]) };
}
