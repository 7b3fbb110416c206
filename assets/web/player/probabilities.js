// Works out p, q and the residual of one token from the trace. Knows no DOM.
//
// A candidate is [id, text, mass]. The trace keeps the most probable ones and the mass of the rest, not the whole
// vocabulary, so some numbers are known exactly, some only bounded, and some not at all.

// A resampled token has the distributions of the rejected draft that it replaces.
function probabilitiesOf(token, round) {
  let from = token;
  if (token.status === 'resampled') {
    from = round.tokens.findLast(other => other.status === 'rejected') || token;
  }
  const weight = from.h === undefined ? 1 : round.tokens[from.index - 1]?.running ?? 1;   // of p in the residual of a block
  return { p: from.p_top || token.p_top, q: from.q_top || token.q_top, residual: from.residual || token.residual, weight };
}

// A token's probability: {mass} where the trace kept it, else {most}, an upper bound from the last candidate kept.
function massOf(distribution, id) {
  if (!distribution) return {};
  const candidate = distribution.top.find(each => each[0] === id);
  if (candidate) return { mass: candidate[2] };
  const most = Math.min(distribution.rest, distribution.top.at(-1)?.[2] ?? 1);
  return most < 1e-6 ? { mass: 0 } : { most };
}

// The residual is max(weight · p − q, 0) ÷ Z. One token whose p, q and share are all known gives Z, and Z the rest.
function residualRows({ p, q, residual, weight = 1 }) {
  if (!residual) return { rows: [], total: undefined };
  const known = residual.top.map(([id, text, share]) => ({ id, text, share, p: massOf(p, id).mass, q: massOf(q, id).mass }));
  const pivot = known.find(row => row.p !== undefined && row.q !== undefined && row.share > 0 && weight * row.p > row.q);
  const total = pivot && (weight * pivot.p - pivot.q) / pivot.share;
  if (total) for (const row of known) if (row.q === undefined && row.p !== undefined) row.q = Math.max(0, weight * row.p - row.share * total);
  return { rows: known, total };
}

// Draws one of the kept candidates; undefined for one of the rest. The engine draws from the whole vocabulary in the order
// of token numbers, which a trace does not have.
function drawFrom(distribution, u) {
  let left = u * (distribution.top.reduce((sum, candidate) => sum + candidate[2], 0) + distribution.rest);
  for (const candidate of distribution.top) {
    left -= candidate[2];
    if (left < 0) return candidate;
  }
  return undefined;
}
const keptShare = distribution => 1 - distribution.rest;
