// Decides about one draft of a small vocabulary, by the right rule of rejection sampling and by wrong ones. Knows no
// DOM. The arithmetic runs in the browser; engine/sampling/rejection.py does the same for a model.

export const normal = row => {
  const sum = row.reduce((a, b) => a + b, 0) || 1;
  return row.map(x => x / sum);
};
export const warp = (row, temperature) => normal(row.map(x => x ** (1 / temperature)));
export const pick = row => {
  let left = Math.random();
  for (let i = 0; i < row.length; i++) {
    left -= row[i];
    if (left < 0) return i;
  }
  return row.findLastIndex(x => x > 0);
};
export const residual = (p, q) => {
  const left = p.map((x, i) => Math.max(0, x - q[i]));
  return left.some(x => x > 1e-12) ? normal(left) : p;
};

// The chance that a draft is accepted which the drafter draws with q and the target with p.
export const acceptChance = (p, q) => (q > 0 ? Math.min(1, p / q) : 1);

// A rule gets { p, q, before: q before temperature, threshold: ε of typical acceptance }
// and gives { x: the draft, u, accept, kept, out }.
function test({ p }, x, claimed, closing) {
  const accept = acceptChance(p[x], claimed[x]),
    u = Math.random(),
    kept = u < accept;
  return { x, u, accept, kept, out: kept ? x : pick(closing) };
}
function right(at) {
  return test(at, pick(at.q), at.q, residual(at.p, at.q));
}
function rawQ(at) {
  return test(at, pick(at.q), at.before, residual(at.p, at.before));
}
const favourite = row => row.indexOf(Math.max(...row));
const oneHot = (x, row) => row.map((_, i) => Number(i === x));
function argmax(at) {
  return test(at, favourite(at.q), at.q, residual(at.p, at.q));
}
function certain(at) {
  const x = favourite(at.q);
  return test(at, x, oneHot(x, at.p), residual(at.p, oneHot(x, at.p)));
}
function match(at) {
  const x = favourite(at.q),
    drawn = pick(at.p);
  return { x, target: drawn, kept: drawn === x, out: drawn };
}
function noResidual(at) {
  return test(at, pick(at.q), at.q, at.p);
}
function skipTest(at) {
  if (Math.random() >= 0.01) return right(at);
  const x = pick(at.q);
  return { x, kept: true, out: x };
}

// Medusa, 2024: accepted if p is likely enough, however often q drafts it. δ = 0.3 is its default.
export function typical({ p, q, threshold }) {
  const x = pick(q),
    entropy = -p.reduce((sum, each) => sum + (each > 0 ? each * Math.log(each) : 0), 0);
  const enough = Math.min(threshold, 0.3 * Math.exp(-entropy)),
    kept = p[x] > enough;
  return { x, enough, kept, out: kept ? x : favourite(p) };
}

// [words, rule, the name that a lesson calls it by]
export const RULES = [
  ['the right rule', right, 'right'],
  ['favourite, tested with q = 1', certain, 'certain'],
  ['favourite, accepted if p draws it too', match, 'match'],
  ['q taken before temperature', rawQ, 'raw'],
  ['favourite, tested as if drawn', argmax, 'argmax'],
  ['no residual: redraw from p', noResidual, 'redraw'],
  ['one draft in 100 accepted untested', skipTest, 'rare'],
  ['typical acceptance: lossy on purpose', typical, 'typical'],
];
