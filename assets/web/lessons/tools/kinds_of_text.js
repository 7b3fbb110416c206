// Asks which drafter is the fastest on each kind of text, then shows the speedups that were measured.

import { make, makeButton } from '../../lib/dom.js';
import { figure, makeNote, makeResult, picker } from '../widgets/widgets.js';

// On how many prompts the first is faster. The lists are of the same prompts, in one order.
const winsOf = (mine, its) => mine.filter((speedup, i) => speedup > its[i]).length;

// Places a speedup on a line from 0.8 to 6 times as fast, where doubling is the same length everywhere.
const placeOf = speedup => Math.log(Math.min(6, Math.max(0.8, speedup)) / 0.8) / Math.log(6 / 0.8);

function dots(speedups) {
  return make(
    'span',
    'sl-kinds-dots',
    [1, ...speedups].map((each, i) => make('i', i ? '' : 'sl-kinds-plain', '', { '--at': placeOf(each) })),
    { role: 'img', 'aria-label': `single prompts: ${speedups.map(each => each.toFixed(2)).join(', ')}` },
  );
}

// ``table``: {kind: {drafter: [speedup, speedups of the single prompts]}}.
export function makeKindsOfText({ table }, touched) {
  const kinds = Object.keys(table),
    drafters = Object.keys(table[kinds[0]]),
    guesses = kinds.map(kind => picker(kind, [['–', ''], ...drafters.map(each => [each, each])]));
  const lines = make('table', 'sl-kinds'),
    result = makeResult(),
    show = makeButton('Show what was measured', reveal);
  const best = kind => drafters.reduce((first, each) => (table[kind][each][0] > table[kind][first][0] ? each : first));
  const mayLead = (kind, each) => each === best(kind) || winsOf(table[kind][each][1], table[kind][best(kind)][1]) > 0;

  function reveal() {
    const rows = kinds.map((kind, i) => {
      const guess = guesses[i].value,
        mark = guess ? (mayLead(kind, guess) ? ' ✓' : ' ✗') : '';
      return make('tr', '', [
        make('th', '', kind + mark, { scope: 'row' }),
        ...drafters.map(each =>
          make('td', mayLead(kind, each) ? 'sl-kinds-best' : '', [
            table[kind][each][0].toFixed(2),
            dots(table[kind][each][1]),
          ]),
        ),
      ]);
    });
    lines.replaceChildren(
      make('caption', 'sl-unseen', 'Speedups measured'),
      make('thead', '', [
        make('tr', '', [make('td'), ...drafters.map(each => make('th', '', each, { scope: 'col' }))]),
      ]),
      make('tbody', '', rows),
    );
    const right = kinds.filter((kind, i) => guesses[i].value && mayLead(kind, guesses[i].value)).length,
      made = guesses.filter(each => each.value).length;
    result.textContent = made
      ? `${right} of ${kinds.length} found.`
      : 'You made no guess, but here is what was measured.';
    result.dataset.right = String(right);
    touched();
  }
  return figure(
    'Which drafter is the fastest?',
    () => {},
    () => {},
    ...guesses.map(each => each.row),
    make('div', 'sl-buttons', [show]),
    lines,
    result,
    makeNote(
      'Times as fast as plain decoding, greedy, on two CPU cores, with a length chosen in each round. The number is the average; each dot is a prompt, and the line is plain decoding. Dark: the fastest on average, and every drafter that beat it on at least one prompt.',
    ),
  );
}
