// Predicts speedups by the formulas of engine/trace/speedup_model.py, for sliders that answer at once; a test compares
// the two. Costs are in plain target steps: c of one draft step, v(W) of scoring W tokens at once.

export function expectedTokens(alpha, gamma) {
  return alpha >= 1 ? gamma + 1 : (1 - alpha ** (gamma + 1)) / (1 - alpha);
}

// v at any width: linear between measured widths, and beyond them along the last slope, or the mean one if steeper.
export function interpolate(v, width) {
  if (width in v) return v[width];
  const widths = Object.keys(v)
    .map(Number)
    .sort((a, b) => a - b);
  if (widths.length === 1) return v[widths[0]];
  let right = widths.findIndex(known => known > width);
  if (right < 0) right = widths.length - 1;
  const low = widths[Math.max(right - 1, 0)],
    high = widths[Math.max(right, 1)];
  const slopeFrom = known => (v[high] - v[known]) / (high - known);
  const slope = width > high ? Math.max(slopeFrom(low), slopeFrom(widths[0]), 0) : slopeFrom(low);
  return v[high] + slope * (width - high);
}

export function idealisedSpeedup(alpha, gamma, c, v) {
  return expectedTokens(alpha, gamma) / (gamma * c + interpolate(v, gamma + 1));
}

// The draft length (0 = none) with the highest speedup; the shorter one on a tie.
export const bestGamma = (alpha, c, v, most) => bestLength(Array(most).fill(alpha), c, v);

// The same where acceptance depends on depth: ``alphas[i]`` is the chance of draft i + 1, given those before it.
// ``atOnce``: c is the cost of all drafts of a round.
export function bestLength(alphas, c, v, atOnce = false) {
  let best = 0,
    bestRate = 1,
    tokens = 1,
    reached = 1;
  for (const [i, alpha] of alphas.entries()) {
    reached *= alpha;
    tokens += reached;
    const rate = tokens / ((atOnce ? 1 : i + 1) * c + interpolate(v, i + 2));
    if (rate > bestRate) [best, bestRate] = [i + 1, rate];
  }
  return best;
}

// How many tokens an answer needs until drafting pays, if its first token comes ``later`` and each further one takes
// ``drafting`` instead of ``plain``; null if it is not later, or never pays.
export const paysFrom = (later, plain, drafting) =>
  later > 0 && plain > drafting ? Math.ceil(later / (plain - drafting)) : null;

// The α at which γ drafts a round give this many tokens.
export function alphaFor(tokens, gamma) {
  let low = 0,
    high = 1;
  for (let i = 0; i < 50; i++) {
    const alpha = (low + high) / 2;
    if (expectedTokens(alpha, gamma) < tokens) low = alpha;
    else high = alpha;
  }
  return high;
}

// The smallest α from which γ drafts a round are as fast as none; null where they are slower at any α.
export function breakEven(gamma, c, v) {
  const cost = gamma * c + interpolate(v, gamma + 1);
  if (cost <= 1) return 0;
  return cost > gamma + 1 ? null : alphaFor(cost, gamma);
}

// The highest cost of a draft step at which some draft length is as fast as none; below 0 if none ever is.
export function highestPayingCost(alpha, v, most) {
  let highest = -Infinity;
  for (let gamma = 1; gamma <= most; gamma++) {
    highest = Math.max(highest, (expectedTokens(alpha, gamma) - interpolate(v, gamma + 1)) / gamma);
  }
  return highest;
}
