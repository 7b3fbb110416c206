// Writes a small JSON answer with drafts, under the right masks and under four mistakes that servers
// have made. The rounds are computed below, apart from the page: greedy, with a model that would
// rather think, fence its code and chat.

import { make, makeButton, setText } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { figure, makeNote, makeResult, picker } from '../widgets/widgets.js';

const DRAFTS = 4;
const THOUGHT = '</think>',
  END = 'end';
// What may come at each place of the answer, the model's own pick first.
const GRAMMAR = [['{'], ['"ok"'], [':'], ['true', 'false'], [','], ['"n"'], [':'], ['7', '42'], ['}'], [END]];
// What the model would rather write at some places, if nothing held it back.
const WISHES = { 0: '```json', 7: 'seven', 9: 'Hope that helps!' };

// [words, the name of the rule]
const MASK_RULES = [
  ['the right masks', 'right'],
  ['the mask doesn’t move along with the drafts', 'stays'],
  ['only the last row is masked', 'closing'],
  ['the drafts are masked, the target isn’t', 'unmasked'],
  ['one decision a round: is it still thinking?', 'thinking'],
  ['the right masks, and no drafter: only what has to come is drafted', 'forced'],
];

// Three mistakes need no thinking to be seen.
const beginOf = rule => ['<think>', 'easy', ...(['stays', 'closing', 'unmasked'].includes(rule) ? [THOUGHT] : [])];

// The place in the answer, -1 while the model thinks, null once the text has left the grammar.
function placeOf(text) {
  const start = text.indexOf(THOUGHT) + 1;
  if (!start) return -1;
  const answer = text.slice(start);
  return answer.every((word, i) => GRAMMAR[i]?.includes(word)) ? answer.length : null;
}

// The words that may follow a text; null where every word may.
function allowedAfter(text) {
  const place = placeOf(text);
  return place === -1 ? null : (GRAMMAR[place] ?? []);
}

// Whether an answer ends here, right or wrong.
const isOver = text => text.at(-1) === END || placeOf(text) === null;

function pickFor(text, mask) {
  const place = placeOf(text),
    wishes =
      place === null ? ['…'] : place < 0 ? [THOUGHT] : [WISHES[place], ...(GRAMMAR[place] ?? [])].filter(Boolean);
  return mask ? (wishes.find(word => mask.includes(word)) ?? mask[0]) : wishes[0];
}

// The words that follow a text one after the other, as long as ``next`` gives one.
function wordsFrom(text, next, most = Infinity) {
  const words = [];
  for (let word = next(text); word && words.length < most; word = next([...text, ...words])) words.push(word);
  return words;
}

// Where only one word may follow, it is as good as a draft.
const onlyWord = at => (allowedAfter(at)?.length === 1 ? allowedAfter(at)[0] : undefined);

function draftsFor(text, rule) {
  if (rule === 'forced') return wordsFrom(text, onlyWord);
  return wordsFrom(text, at => pickFor(at, rule === 'unmasked' ? allowedAfter(at) : null), DRAFTS);
}

function maskOf(rule, { start, here, isLast }) {
  if (rule === 'stays') return allowedAfter(start);
  if (rule === 'closing') return isLast ? allowedAfter(here) : null;
  if (rule === 'unmasked') return null;
  if (rule === 'thinking') return allowedAfter(start) && allowedAfter(here);
  return allowedAfter(here);
}

// One pass: a row for each draft and one more. ``emitted``: the accepted drafts and the word that closes the round.
export function maskedRound(text, rule) {
  const drafts = draftsFor(text, rule);
  const rows = [];
  const emitted = [];
  let isOpen = true;
  for (const [i, draft] of [...drafts, undefined].entries()) {
    const here = [...text, ...drafts.slice(0, i)],
      mask = maskOf(rule, { start: text, here, isLast: i === drafts.length }),
      pick = pickFor(here, mask);
    const status = !isOpen ? 'discarded' : draft === undefined ? 'bonus' : draft === pick ? 'accepted' : 'rejected';
    rows.push({ after: here.at(-1), draft, mask, pick, status });
    if (isOpen) emitted.push(pick);
    isOpen &&= status === 'accepted' && pick !== END;
  }
  return { rows, emitted };
}

const answerOf = text =>
  text
    .slice(text.indexOf(THOUGHT) + 1)
    .filter(word => word !== END)
    .join('');

const shownMask = mask => (mask === null ? 'every word' : mask.join(' or ') || 'nothing');
const FATES = { accepted: '✓ accepted', rejected: '✗ rejected', discarded: 'discarded', bonus: 'closes the round' };

export function makeJsonMasks(settings, touched) {
  const rule = picker('Rule', MASK_RULES);
  const written = make('p', 'sl-own-text'),
    body = make('tbody'),
    result = makeResult();
  const columns = ['after', 'draft', 'the mask allows', 'the target picks', 'result'];
  const head = make(
    'tr',
    '',
    columns.map(words => make('th', '', words, { scope: 'col' })),
  );
  const table = make('table', 'sl-masks', [make('thead', '', [head]), body]);
  let text = beginOf(rule.value),
    passes = 0;
  const next = makeButton('', () => {
    if (isOver(text)) return restart();
    const { rows, emitted } = maskedRound(text, rule.value);
    text = [...text, ...emitted];
    passes++;
    show(rows);
    touched();
  });

  function restart() {
    text = beginOf(rule.value);
    passes = 0;
    show([]);
  }
  function show(rows) {
    setText(next, isOver(text) ? 'Start over' : 'Next pass');
    written.textContent = text.join(' ');
    table.hidden = !rows.length;
    body.replaceChildren(
      ...rows.map(({ after, draft, mask, pick, status }) =>
        make(
          'tr',
          '',
          [after, draft ?? '–', shownMask(mask), pick, FATES[status]].map(words => make('td', '', words)),
          { 'data-state': status },
        ),
      ),
    );
    if (placeOf(text) === null)
      result.textContent = `Broken: “${answerOf(text)}” isn’t JSON. A word came in that the mask of its own row forbids.`;
    else if (text.at(-1) === END) result.textContent = `Valid: ${answerOf(text)} after ${quantity(passes, 'pass')}.`;
    else if (passes) result.textContent = `${quantity(passes, 'pass')} so far, and still good.`;
    else result.textContent = 'The answer has to be JSON. Press “Next pass”.';
    Object.assign(result.dataset, { broken: placeOf(text) === null, passes });
  }
  return figure(
    'JSON, with drafts on',
    restart,
    touched,
    rule.row,
    written,
    make('div', 'sl-table-box', [table], { tabindex: '0', role: 'region', 'aria-label': 'The rows of this pass' }),
    make('div', 'sl-buttons', [next]),
    result,
    makeNote(
      'A small model in your browser, greedy, with a grammar for {"ok": true, "n": 7}. Left alone, it prefers a code fence and a chat.',
    ),
  );
}
