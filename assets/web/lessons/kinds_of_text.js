// Asks which drafter is the fastest on each kind of text, then shows the speedups that were measured.

import { make, makeButton } from '../lib/dom.js';
import { figure, makeResult, picker } from './widgets.js';

// ``table``: {kind: {drafter: [speedup, lowest, highest of its interval]}}.
export function makeKindsOfText({ table }, touched) {
  const kinds = Object.keys(table),
    drafters = Object.keys(table[kinds[0]]),
    guesses = kinds.map(kind => picker(kind, [['–', ''], ...drafters.map(each => [each, each])]));
  const lines = make('table', 'sl-kinds'),
    result = makeResult(),
    show = makeButton('Show what was measured', reveal);
  const best = kind => drafters.reduce((first, each) => (table[kind][each][0] > table[kind][first][0] ? each : first));
  const mayLead = (kind, each) => each === best(kind) || table[kind][each][2] >= table[kind][best(kind)][1]; // the intervals overlap

  function reveal() {
    const rows = kinds.map((kind, i) => {
      const guess = guesses[i].value,
        mark = guess ? (mayLead(kind, guess) ? ' ✓' : ' ✗') : '';
      return make('tr', '', [
        make('th', '', kind + mark, { scope: 'row' }),
        ...drafters.map(each =>
          make('td', mayLead(kind, each) ? 'sl-kinds-best' : '', table[kind][each][0].toFixed(2)),
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
    result.textContent = made ? `${right} of ${kinds.length} found.` : 'Without a guess, then.';
    result.dataset.right = right;
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
    make(
      'p',
      'sl-figure-note',
      'Times as fast as plain decoding, greedy, on two CPU cores, with a length chosen in each round. Dark: the highest, and those whose interval reaches into its own: by these eight prompts they cannot be told apart.',
    ),
  );
}
