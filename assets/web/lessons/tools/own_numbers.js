// Reads what a learner has measured on a server, without drafts and with them: does it pay, for whole requests, and if
// not, where does the time go?

import { make } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { paysFrom } from '../../lib/speedup_model.js';
import { figure, makeNote, makeResult, short } from '../widgets/widgets.js';

/** @typedef {Record<'plain' | 'drafting' | 'tau' | 'firstPlain' | 'firstDrafting' | 'length', number>} Measured */
/** The speedup of writing and of a whole answer of ``length`` tokens; what a round costs in plain steps; and the cause in
 * the words of the lesson on slow runs: '' where it pays. Rates are tokens a second, ``first`` seconds.
 * @param {Measured} numbers */
export function weighMeasured({ plain, drafting, tau, firstPlain, firstDrafting, length }) {
  const writing = drafting / plain,
    cost = tau / writing,
    whole = (firstPlain + (length - 1) / plain) / (firstDrafting + (length - 1) / drafting);
  const cause = whole >= 1 ? '' : writing >= 1 ? 'first' : tau < 1.3 ? 'few' : 'costly';
  return { writing, whole, cost, cause, from: paysFrom(firstDrafting - firstPlain, 1 / plain, 1 / drafting) };
}

const CAUSES = {
  '': 'It pays. Now change γ by one and keep what is faster.',
  first: 'Writing is faster, but the wait for the first token eats it up.',
  few: 'Few drafts are accepted. Look at the text, the chat template and whether the drafter fits the model.',
  costly: 'Enough is accepted, so a round costs too much: try a shorter γ, and fewer users.',
};

/** @type {[keyof Measured, string, number, number][]} */
const FIELDS = [
  ['plain', 'Tokens a second without drafts', 50, 0.1],
  ['drafting', 'Tokens a second with drafts', 60, 0.1],
  ['tau', 'Tokens per pass, from the log', 1.8, 0.01],
  ['firstPlain', 'Seconds to the first token, without', 0.4, 0.01],
  ['firstDrafting', 'Seconds to the first token, with', 0.5, 0.01],
  ['length', 'Tokens of an answer', 200, 1],
];

export function makeOwnNumbers(_, touched) {
  const result = makeResult(),
    aside = makeNote('', { role: 'status' });
  const inputs = Object.fromEntries(
    FIELDS.map(([name, , value, step]) => [
      name,
      make('input', '', '', { type: 'number', inputmode: 'decimal', min: step, step: 'any', value }),
    ]),
  );
  const rows = FIELDS.map(([name, words]) => make('label', 'sl-own-number', [make('span', '', words), inputs[name]]));

  function draw() {
    const read = Object.entries(inputs).map(([name, input]) => [name, Number(input.value)]);
    const numbers = /** @type {Measured} */ (Object.fromEntries(read));
    if (!Object.values(numbers).every(value => value > 0)) {
      result.textContent = 'Fill in all six, each above 0.';
      aside.textContent = '';
      return;
    }
    const { writing, whole, cost, cause, from } = weighMeasured(numbers);
    result.textContent = `Writing: ${short(writing)} ×. The whole answer: ${short(whole)} ×. ${CAUSES[cause]}`;
    const pays = from ? ` Drafting pays for answers from ${quantity(from, 'token')} on.` : '';
    aside.textContent = `A round writes ${short(numbers.tau)} tokens and takes as long as ${short(cost)} plain steps.${pays}`;
    Object.assign(result.dataset, { whole: whole.toFixed(4), cause });
  }
  return figure('Your own numbers', draw, touched, ...rows, result, aside);
}
