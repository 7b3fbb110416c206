// Shows α and the speed of a drafter on six kinds of text, at temperature 0 and at 1. The dial waits for a guess.

import { make } from '../../lib/dom.js';
import { figure, makeNote, makeResult, picker, slider } from '../widgets/widgets.js';

// What both columns are drawn on: from where to where, and the digits in words.
const SCALES = [
  { name: 'α', low: 0, high: 0.8, level: null },
  { name: 'speed', low: 0.7, high: 2, level: 1 },
];
const ALL = 'all';

/** On how many kinds each of the two numbers fell from temperature 0 to 1, "all" not counted.
 * @param {Record<string, number[][]>} kinds @returns {number[]} */
function fallsOf(kinds) {
  const each = Object.entries(kinds).filter(([kind]) => kind !== ALL);
  return SCALES.map((_, i) => each.filter(([, [cold, hot]]) => hot[i] < cold[i]).length);
}

// A line with a dot for each prompt, a ring where it was at temperature 0, and a mark where it is now.
function track({ low, high, level }, before, now, prompts) {
  const place = value => ({ '--at': Math.min(1, Math.max(0, (value - low) / (high - low))) });
  return make(
    'span',
    'sl-heat-track',
    [
      ...(level === null ? [] : [make('i', 'sl-heat-level', '', place(level))]),
      ...prompts.map(value => make('i', 'sl-heat-dot', '', place(value))),
      make('i', 'sl-heat-ring', '', place(before)),
      make('i', 'sl-heat-mark', '', place(now)),
    ],
    { 'aria-hidden': 'true' },
  );
}

// ``tables``: {drafter: {kind: [at 0, at 1]}}, each of them [α, speedup, α of the prompts, speedups of the prompts].
export function makeHeat({ tables }, touched) {
  const drafter = picker(
    'Drafter',
    Object.keys(tables).map(name => [name, name]),
  );
  const dial = slider('Temperature', { low: 0, high: 1, step: 1, value: 0 }),
    input = dial.row.querySelector('input');
  const lines = make('table', 'sl-heat'),
    result = makeResult();
  input.disabled = true;

  function cell(i, [cold, hot], isAll) {
    const now = dial.value ? hot : cold,
      words = dial.value ? `${cold[i].toFixed(2)} → ${hot[i].toFixed(2)}` : cold[i].toFixed(2);
    const node = make('td', '', [make('span', '', words), track(SCALES[i], cold[i], now[i], isAll ? [] : now[i + 2])]);
    if (dial.value) node.dataset.falls = String(hot[i] < cold[i]);
    return node;
  }

  function draw() {
    const kinds = tables[drafter.value];
    lines.replaceChildren(
      make('caption', 'sl-unseen', `α and speed of the ${drafter.value} on each kind of text`),
      make('thead', '', [
        make('tr', '', [make('td'), ...SCALES.map(({ name }) => make('th', '', name, { scope: 'col' }))]),
      ]),
      make(
        'tbody',
        '',
        Object.entries(kinds).map(([kind, pair]) =>
          make('tr', kind === ALL ? 'sl-heat-all' : '', [
            make('th', '', kind === ALL ? 'all 48' : kind, { scope: 'row' }),
            ...SCALES.map((_, i) => cell(i, pair, kind === ALL)),
          ]),
        ),
      ),
    );
    const [alpha, speed] = fallsOf(kinds),
      count = Object.keys(kinds).length - 1;
    Object.assign(result.dataset, dial.value ? { alpha, speed } : { alpha: '', speed: '' });
    result.textContent = dial.value
      ? `From 0 to 1, α fell on ${alpha} of ${count} kinds, and the speed on ${speed} of ${count}.`
      : input.disabled
        ? 'This is temperature 0. Make your guess; then the dial turns.'
        : 'This is temperature 0. Turn the dial to 1.';
  }

  const box = figure(
    'Turn up the heat',
    draw,
    touched,
    dial.row,
    drafter.row,
    lines,
    result,
    makeNote(
      'Eight prompts of each kind on two CPU cores, with a length chosen in each round. A dot is a prompt; the mark is all eight together: accepted ÷ tested, and tokens per second ÷ tokens per second of plain decoding at the same temperature. The ring is where it was at 0, and the grey line is plain decoding. Underlined: it fell.',
    ),
  );
  box.addEventListener('answered', () => {
    input.disabled = false;
    draw();
  });
  return box;
}
