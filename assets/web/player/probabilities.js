// Works out p, q and the residual of one token from the trace. Knows no DOM.
//
// A candidate is [id, text, mass]. The trace keeps the most probable ones and the mass of the rest, not the whole
// vocabulary, so some numbers are known exactly, some only bounded, and some not at all.
/** @import { Candidate, Distribution } from './trace.d.ts' */
/** @import { Round, Token } from './rounds.d.ts' */
import { siblingsOf } from './siblings.js';

/** The draft that a resampled token replaces. With typical acceptance siblings of an accepted draft are rejected, too.
 * @param {Token} token @param {Round} round */
export function rejectedAt({ position }, round) {
  const rejected = round.tokens.filter(other => other.status === 'rejected');
  return rejected.findLast(other => other.position === position) ?? rejected.at(-1);
}

/** A resampled token has the distributions of the rejected draft that it replaces. ``target`` is the target's p; ``p``
 * that or, where siblings were tried before, what they left of it (``isLeft``). ``weight``: what p is multiplied by in
 * the residual of a block.
 * @param {Token} token @param {Round} round */
export function probabilitiesOf(token, round) {
  const from = token.status === 'resampled' ? rejectedAt(token, round) || token : token;
  const target = from.p_top || token.p_top,
    left = elderOf(from, round)?.residual,
    weight = weightBefore(from, round);
  return {
    target,
    p: left || target,
    isLeft: Boolean(left),
    q: from.q_top || token.q_top,
    residual: from.residual || token.residual,
    weight,
  };
}

/** The sibling tried just before. In a block it counts whether or not it was rejected.
 * @param {Token} token @param {Round} round */
function elderOf(token, round) {
  const siblings = siblingsOf(token, round),
    elder = siblings[siblings.indexOf(token) - 1];
  return elder && (token.h !== undefined || elder.status === 'rejected') ? elder : undefined;
}

/** engine/sampling/traversal.py: weight_after. NaN where the trace does not have the sum of an elder's residual.
 * @param {Token} token @param {Round} round @returns {number} */
function weightBefore(token, round) {
  if (token.h === undefined) return 1;
  const elder = elderOf(token, round),
    before = round.parents ? round.parents[token.index] - 1 : token.index - 1;
  if (!elder) return round.tokens[before]?.running ?? 1;
  const known = probabilitiesOf(elder, round),
    { total } = residualRows(known);
  return known.weight < 1 ? total / (total + 1 - known.weight) : known.weight;
}

/** A token's probability: {mass} where the trace kept it, else {most}, an upper bound from the last candidate kept.
 * @param {Distribution | undefined} distribution @param {number} id @returns {{ mass?: number, most?: number }} */
export function massOf(distribution, id) {
  if (!distribution) return {};
  const candidate = distribution.top.find(each => each[0] === id);
  if (candidate) return { mass: candidate[2] };
  const most = Math.min(distribution.rest, distribution.top.at(-1)?.[2] ?? 1);
  return most < 1e-6 ? { mass: 0 } : { most };
}

/** The residual is max(weight · p − q, 0) ÷ Z. One token whose p, q and share are all known gives Z, and Z the rest.
 * @param {{ p?: Distribution, q?: Distribution, residual?: Distribution, weight?: number }} known */
export function residualRows({ p, q, residual, weight = 1 }) {
  if (!residual) return { rows: [], total: undefined };
  const known = residual.top.map(([id, text, share]) => ({
    id,
    text,
    share,
    p: massOf(p, id).mass,
    q: massOf(q, id).mass,
  }));
  const pivot = known.find(
    row => row.p !== undefined && row.q !== undefined && row.share > 0 && weight * row.p > row.q,
  );
  const total = pivot && (weight * pivot.p - pivot.q) / pivot.share;
  if (total)
    for (const row of known)
      if (row.q === undefined && row.p !== undefined) row.q = Math.max(0, weight * row.p - row.share * total);
  return { rows: known, total };
}

/** Draws one of the kept candidates; undefined for one of the rest. The engine draws from the whole vocabulary in the
 * order of token numbers, which a trace does not have.
 * @param {Distribution} distribution @param {number} u @returns {Candidate | undefined} */
export function drawFrom(distribution, u) {
  let left = u * (distribution.top.reduce((sum, candidate) => sum + candidate[2], 0) + distribution.rest);
  for (const candidate of distribution.top) {
    left -= candidate[2];
    if (left < 0) return candidate;
  }
  return undefined;
}
/** @param {Distribution} distribution */
export const keptShare = distribution => 1 - distribution.rest;
