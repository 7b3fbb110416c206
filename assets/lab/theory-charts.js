// The three pictures of the theory tab. ``set``: α, γ, c as they stand; ``v``: costs of scoring by width.
const MOST = 16, FAINT = [0.3, 0.5, 0.7, 0.9];
const times = value => `${value.toFixed(2)}×`;
const GAMMA_AXIS = { low: 0, high: MOST, step: 2, name: 'γ, tokens drafted in a round' };
const ALPHA_AXIS = { low: 0, high: 1, step: 0.2, name: 'α, chance that a draft is kept' };

function speedAxis(most) {
  const step = niceStep(Math.max(1.5, most), 4);
  return { low: 0, high: Math.ceil(Math.max(1.5, most) / step - 0.05) * step, step, name: '× plain decoding' };
}

// One run's point: a full diamond as measured, a hollow one as predicted from its own rounds.
function runMarks(frame, x, run) {
  if (run.predicted != null) frame.mark(x, run.predicted, 'diamond', 'sl-run-predicted');
  if (run.measured != null) frame.mark(x, run.measured, 'diamond', 'sl-run-measured');
}

function overGamma(box, set, v, run) {
  const lengths = Array.from({ length: MOST + 1 }, (_, gamma) => gamma);
  const curve = alpha => lengths.map(gamma => [gamma, idealisedSpeedup(alpha, gamma, set.c, v)]);
  const main = curve(set.alpha), faint = FAINT.map(alpha => [alpha, curve(alpha)]);
  const known = run.gamma != null ? [run.measured ?? 0, run.predicted ?? 0] : [];
  const heights = [main, ...faint.map(([, points]) => points)].flat().map(point => point[1]);
  const frame = plot(box, GAMMA_AXIS, speedAxis(Math.max(...heights, ...known)), 320);
  for (const [, points] of faint) frame.line(points, 'sl-curve-faint');
  for (const [alpha, points] of faint) frame.label(MOST, points[MOST][1], `α = ${alpha}`, 'sl-tag-faint', 8);
  frame.level(1);
  frame.upright(set.gamma, 'sl-guide');
  frame.line(main, 'sl-curve');
  for (const [gamma, speed] of main) frame.mark(gamma, speed, 'dot', gamma === set.gamma ? 'sl-here' : 'sl-dot');
  const best = bestGamma(set.alpha, set.c, v, MOST);
  frame.mark(best, main[best][1], 'star', 'sl-best');
  if (run.gamma != null) runMarks(frame, run.gamma, run);
  frame.label(best, main[best][1], `best: γ = ${best}, ${times(main[best][1])}`, '', 16);
  frame.show(`Speedup for draft lengths 0 to ${MOST} at α ${set.alpha.toFixed(2)}: best at ${best} with ${times(main[best][1])}.`);
  return frame;
}

function overAlpha(box, set, v, run) {
  const points = Array.from({ length: 101 }, (_, i) => [i / 100, idealisedSpeedup(i / 100, set.gamma, set.c, v)]);
  const here = idealisedSpeedup(set.alpha, set.gamma, set.c, v), at = breakEven(set.gamma, set.c, v);
  const same = run.alpha != null && Math.round(run.gamma) === set.gamma;   // a run of another γ lies on another curve
  const frame = plot(box, ALPHA_AXIS, speedAxis(Math.max(points[100][1], same ? run.measured ?? 0 : 0)), 300);
  frame.level(1);
  if (at != null) frame.upright(at, 'sl-even');
  frame.line(points, 'sl-curve');
  frame.mark(set.alpha, here, 'dot', 'sl-here');
  if (same) runMarks(frame, run.alpha, run);
  const said = at == null ? `γ = ${set.gamma} pays at no α` : at === 0 ? 'pays at any α' : `pays from α = ${at.toFixed(2)}`;
  frame.label(at ?? 0, 0.5, said);
  frame.show(`Speedup for α from 0 to 1 with γ ${set.gamma}: ${said}.`);
  return frame;
}

// Which γ is best over α and c, in cells of one colour each, and the line above which none pays.
function bestMap(box, set, v, run, mostC) {
  const columns = 60, rows = 40, cells = {}, table = {};
  for (let width = 1; width <= MOST + 1; width++) table[width] = interpolate(v, width);   // looked up 40,000 times
  const frame = plot(box, ALPHA_AXIS, { low: 0, high: mostC, step: niceStep(mostC, 5), name: 'c, cost of a draft step' }, 300);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const best = bestGamma((column + 0.5) / columns, mostC * (row + 0.5) / rows, table, MOST);
      (cells[best] ??= []).push([column, row]);
    }
  }
  const w = (frame.X(1) - frame.X(0)) / columns, h = (frame.Y(0) - frame.Y(mostC)) / rows;
  for (const [gamma, members] of Object.entries(cells)) {
    const d = members.map(([a, b]) => `M${(frame.X(0) + a * w).toFixed(1)},${(frame.Y(0) - b * h).toFixed(1)}h${(w + 0.5).toFixed(1)}v${(-h - 0.5).toFixed(1)}h${(-w - 0.5).toFixed(1)}z`);
    const cell = shape('path', { class: gamma === '0' ? 'sl-cell-none' : 'sl-cell', d: d.join('') });
    if (gamma !== '0') cell.style.setProperty('--share', `${12 + 5 * gamma}%`);
    frame.add(cell);
  }
  const border = Array.from({ length: 201 }, (_, i) => [i / 200, dearestDraft(i / 200, table, MOST)]);
  const inside = border.map(([alpha, c]) => [alpha, Math.min(mostC, Math.max(0, c))]);
  frame.line(inside.filter((_, i) => border.slice(Math.max(0, i - 1), i + 2).some(([, c]) => c > 0 && c < mostC)), 'sl-border');
  for (const [gamma, members] of Object.entries(cells)) named(frame, gamma, members, columns, rows / mostC);
  if (run.alpha != null && run.c != null) frame.mark(run.alpha, run.c, 'diamond', 'sl-run-measured');
  frame.mark(set.alpha, set.c, 'dot', 'sl-here');
  const best = bestGamma(set.alpha, set.c, table, MOST);
  frame.show(`Best draft length over α and c; with α ${set.alpha.toFixed(2)} and c ${set.c.toFixed(2)} it is ${best}.`);
  return frame;
}

// A region's number, in the member nearest to its middle; small regions go without.
function named(frame, gamma, members, columns, perC) {
  if (members.length < 24) return;
  const mean = place => members.reduce((sum, cell) => sum + cell[place], 0) / members.length;
  const [a, b] = [mean(0), mean(1)], far = cell => (cell[0] - a) ** 2 + (cell[1] - b) ** 2;
  const [column, row] = members.reduce((near, cell) => far(cell) < far(near) ? cell : near);
  const at = { x: frame.X((column + 0.5) / columns), y: frame.Y((row + 0.5) / perC) + 5, 'text-anchor': 'middle' };
  frame.add(shape('text', { ...at, class: 'sl-tag' }, gamma === '0' ? 'no draft pays' : gamma));
}
