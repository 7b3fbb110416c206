// Draws the three pictures of the theory tab. ``set``: α, γ and c of the sliders; ``v``: costs of scoring by width;
// ``run``: the value of the component, whose ``here`` holds the costs and points measured on this machine.
import { bestGamma, breakEven, highestPayingCost, idealisedSpeedup, interpolate } from '../lib/speedup_model.js';
import { niceStep, plot, shape } from './svg_chart.js';

export const MOST = 16,
  FAINT = [0.3, 0.5, 0.7, 0.9];
export const times = value => `${value.toFixed(2)}×`;
const GAMMA_AXIS = { low: 0, high: MOST, step: 2, name: 'γ, tokens drafted in a round' };
const ALPHA_AXIS = { low: 0, high: 1, step: 0.2, name: 'α, chance that a draft is accepted' };

function speedAxis(most) {
  const step = niceStep(Math.max(1.5, most), 4);
  return { low: 0, high: Math.ceil(Math.max(1.5, most) / step - 0.05) * step, step, name: '× plain decoding' };
}

// Points measured here, one shape a draft length.
const SHAPES = { 1: 'dot', 2: 'square', 4: 'triangle', 8: 'wedge' },
  SIGNS = { 1: '●', 2: '■', 4: '▲', 8: '▼' };
function measuredMarks(frame, points, x) {
  for (const point of points) frame.mark(point[x], point[2], SHAPES[point[1]], `sl-point sl-gamma-${point[1]}`);
}

// Names in the free room at the right, each at the end of its line and none on
// another. ``ends``: [height, text, class].
function nameEnds(frame, ends, unit) {
  let free = -Infinity;
  for (const [height, text, kind] of ends.toSorted((a, b) => b[0] - a[0])) {
    free = Math.max(frame.Y(height), free + 14 * unit);
    frame.beside(free, text, `sl-tag-faint ${kind}`);
  }
}

// One run's point: a full diamond as measured, a hollow one as predicted from its own rounds.
function runMarks(frame, x, run) {
  if (run.predicted != null) frame.mark(x, run.predicted, 'diamond', 'sl-run-predicted');
  if (run.measured != null) frame.mark(x, run.measured, 'diamond', 'sl-run-measured');
}

const pointsAt = (alpha, run) => (run.here?.points ?? []).filter(point => Math.abs(point[0] - alpha) < 0.005);
// A run of another γ lies on another curve.
const isOnCurve = (set, run) => run.alpha != null && Math.round(run.gamma) === set.gamma;

// Says which marks are drawn, and no other.
function runWords(run) {
  if (run.measured == null) return run.predicted == null ? '' : ' ◇ The run, as predicted from its own rounds.';
  return ` ◆ The run as measured${run.predicted == null ? '' : ', ◇ as predicted from its own rounds'}.`;
}
function pointWords(points) {
  const lengths = Object.keys(SHAPES).filter(gamma => points.some(point => point[1] === Number(gamma)));
  return lengths.length ? ` Measured: ${lengths.map(gamma => `${SIGNS[gamma]} γ = ${gamma}`).join(', ')}.` : '';
}
const OF_GAMMA = `Drag in the picture to change γ. Thick: the α of the slider. Thin: α = ${FAINT.join(', ')}. Dashed: plain decoding. ★ The best draft length.`;
const OF_ALPHA =
  'Drag in the picture to change α. Thick: the γ of the slider. The upright line is the break-even: left of it, drafting is slower than plain decoding.';
const OF_MAP =
  'Drag in the picture to change α and c. Each field names the fastest draft length; a stronger colour is a longer one. Beyond the thick line no length pays. ● The sliders.';

/** The words below each picture: they name the marks that it has now. */
export function captions(set, run) {
  const ofRun = run.gamma == null ? '' : runWords(run),
    apart = ofRun && ' It need not lie on a curve, because its drafts are not all alike.',
    dashed = run.here?.v ? ' Dashed curves: the prediction from the costs of the machine that measured.' : '';
  return {
    gamma: OF_GAMMA + ofRun + apart + pointWords(pointsAt(set.alpha, run)),
    alpha: OF_ALPHA + (isOnCurve(set, run) ? runWords(run) : '') + pointWords(run.here?.points ?? []) + dashed,
    map: OF_MAP + (run.alpha != null && run.c != null ? ' ◆ The run.' : ''),
  };
}

export function overGamma(box, room, set, v, run) {
  const lengths = Array.from({ length: MOST + 1 }, (_, gamma) => gamma);
  const curve = alpha => lengths.map(gamma => [gamma, idealisedSpeedup(alpha, gamma, set.c, v)]);
  const main = curve(set.alpha),
    faint = FAINT.map(alpha => [alpha, curve(alpha)]);
  const points = pointsAt(set.alpha, run);
  const known = run.gamma != null ? [run.measured ?? 0, run.predicted ?? 0] : [];
  known.push(...points.map(point => point[2]));
  const heights = [main, ...faint.map(([, points]) => points)].flat().map(point => point[1]);
  const narrow = room.width < 480;
  const frame = plot(box, room, GAMMA_AXIS, speedAxis(Math.max(...heights, ...known)), narrow ? 32 : 56);
  for (const [, points] of faint) frame.line(points, 'sl-curve-faint');
  frame.level(1);
  frame.upright(set.gamma, 'sl-guide');
  frame.line(main, 'sl-curve');
  for (const [gamma, speed] of main) frame.mark(gamma, speed, 'dot', gamma === set.gamma ? 'sl-here' : 'sl-dot');
  const best = bestGamma(set.alpha, set.c, v, MOST);
  frame.mark(best, main[best][1], 'star', 'sl-best');
  if (run.gamma != null) runMarks(frame, run.gamma, run);
  measuredMarks(frame, points, 1);
  nameEnds(
    frame,
    faint.map(([alpha, points]) => [points[MOST][1], narrow ? alpha : `α = ${alpha}`, '']),
    room.unit,
  );
  // Below the star: a run's marks stand mostly above.
  frame.label(best, main[best][1], `best: γ = ${best}, ${times(main[best][1])}`, '', -28);
  frame.show(
    `Speedup for draft lengths 0 to ${MOST} at α ${set.alpha.toFixed(2)}: best at ${best} with ${times(main[best][1])}.`,
  );
  return frame;
}

export function overAlpha(box, room, set, v, run) {
  const curve = (gamma, c, v) =>
    Array.from({ length: 101 }, (_, i) => [i / 100, idealisedSpeedup(i / 100, gamma, c, v)]);
  const points = curve(set.gamma, set.c, v),
    at = breakEven(set.gamma, set.c, v);
  const here = idealisedSpeedup(set.alpha, set.gamma, set.c, v),
    measured = run.here?.points ?? [];
  const lines = run.here?.v ? run.here.gammas.map(gamma => [gamma, curve(gamma, run.here.c, run.here.v)]) : [];
  const same = isOnCurve(set, run);
  const heights = [points[100][1], ...lines.map(([, line]) => line[100][1]), ...measured.map(point => point[2])];
  if (same) heights.push(run.measured ?? 0, run.predicted ?? 0);
  const frame = plot(box, room, ALPHA_AXIS, speedAxis(Math.max(...heights)), lines.length ? 50 : undefined);
  frame.level(1);
  if (at != null) frame.upright(at, 'sl-even');
  frame.line(points, 'sl-curve');
  for (const [gamma, line] of lines) frame.line(line, `sl-curve-here sl-gamma-${gamma}`);
  nameEnds(
    frame,
    lines.map(([gamma, line]) => [line[100][1], `γ = ${gamma}`, `sl-gamma-${gamma}`]),
    room.unit,
  );
  frame.mark(set.alpha, here, 'dot', 'sl-here');
  measuredMarks(frame, measured, 0);
  if (same) runMarks(frame, run.alpha, run);
  const start =
    at == null ? `γ = ${set.gamma} pays at no α` : at === 0 ? 'pays at any α' : `pays from α = ${at.toFixed(2)}`;
  frame.label(at ?? 0, 0.5, start);
  const count = measured.length ? ` ${measured.length} measured points.` : '';
  frame.show(`Speedup for α from 0 to 1 with γ ${set.gamma}: ${start}.${count}`);
  return frame;
}

// Which γ is best over α and c, in cells of one colour each, and the line above which none pays.
export function bestMap(box, room, set, v, run, mostC) {
  const frame = plot(box, room, ALPHA_AXIS, {
    low: 0,
    high: mostC,
    step: niceStep(mostC, 5),
    name: 'c, cost of a draft step',
  });
  frame.add(fields(frame, v, mostC, room));
  if (run.alpha != null && run.c != null) frame.mark(run.alpha, run.c, 'diamond', 'sl-run-measured');
  frame.mark(set.alpha, set.c, 'dot', 'sl-here');
  const best = bestGamma(set.alpha, set.c, v, MOST);
  frame.show(`Best draft length over α and c; with α ${set.alpha.toFixed(2)} and c ${set.c.toFixed(2)} it is ${best}.`);
  return frame;
}

// The fields of the map depend on v alone, so most movements of a slider find them drawn.
let fieldsKey = '',
  fieldsDrawn = null;
function fields(frame, v, mostC, room) {
  const key = JSON.stringify([v, mostC, room]);
  if (key === fieldsKey) return fieldsDrawn;
  const columns = 60,
    rows = 40,
    cells = Array.from({ length: MOST + 1 }, () => []),
    group = shape('g'),
    table = [0];
  for (let width = 1; width <= MOST + 1; width++) table[width] = interpolate(v, width); // looked up 40,000 times
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      cells[bestGamma((column + 0.5) / columns, (mostC * (row + 0.5)) / rows, table, MOST)].push([column, row]);
    }
  }
  const perC = rows / mostC;
  cells.forEach((members, gamma) => {
    if (members.length) group.append(field(frame, gamma, members, columns, perC));
  });
  group.append(borderLine(frame, table, mostC));
  group.append(...fieldNames(frame, cells, columns, perC, room.unit));
  [fieldsKey, fieldsDrawn] = [key, group];
  return group;
}

// Cells that touch in a row are one rectangle, a little too large so that no seam shows.
function field(frame, gamma, members, columns, perC) {
  const w = frame.X(1 / columns) - frame.X(0),
    h = frame.Y(0) - frame.Y(1 / perC);
  const strips = [];
  for (const [column, row] of members) {
    const last = strips.at(-1);
    if (last && last[1] === row && last[0] + last[2] === column) last[2]++;
    else strips.push([column, row, 1]);
  }
  const d = strips.map(([column, row, count]) => {
    const x = (frame.X(0) + column * w).toFixed(1),
      y = (frame.Y(0) - row * h).toFixed(1),
      wide = (count * w + 0.5).toFixed(1);
    return `M${x},${y}h${wide}v${(-h - 0.5).toFixed(1)}h-${wide}z`;
  });
  const path = shape('path', { class: gamma ? 'sl-cell' : 'sl-cell-none', d: d.join('') });
  if (gamma) path.style.setProperty('--share', `${12 + 19 * Math.log2(gamma)}%`);
  return path;
}

// Where it runs inside the picture; one step beyond is drawn too, so that it reaches the edge.
function borderLine(frame, table, mostC) {
  const border = Array.from({ length: 201 }, (_, i) => [i / 200, highestPayingCost(i / 200, table, MOST)]);
  const within = ([, c]) => c > 0 && c < mostC;
  const shown = border.filter((_, i) => border.slice(Math.max(0, i - 1), i + 2).some(within));
  const points = shown.map(
    ([alpha, c]) => `${frame.X(alpha).toFixed(1)},${frame.Y(Math.min(mostC, Math.max(0, c))).toFixed(1)}`,
  );
  return shape('polyline', { class: 'sl-border', points: points.join(' ') });
}

// A field's number, in the cell nearest to its middle; none for a small field or beside the number before.
function fieldNames(frame, cells, columns, perC, unit) {
  const names = [],
    placed = [];
  cells.forEach((members, gamma) => {
    if (members.length < 24) return;
    const mean = place => members.reduce((sum, cell) => sum + cell[place], 0) / members.length;
    const [a, b] = [mean(0), mean(1)];
    const far = cell => (cell[0] - a) ** 2 + (cell[1] - b) ** 2;
    const [column, row] = members.reduce((near, cell) => (far(cell) < far(near) ? cell : near));
    const x = frame.X((column + 0.5) / columns),
      y = frame.Y((row + 0.5) / perC) + 5 * unit;
    if (placed.some(([left, top]) => Math.abs(x - left) < 20 * unit && Math.abs(y - top) < 16 * unit)) return;
    placed.push([x, y]);
    names.push(
      shape('text', { x, y, class: 'sl-tag', 'text-anchor': 'middle' }, gamma ? String(gamma) : 'no draft pays'),
    );
  });
  return names;
}
