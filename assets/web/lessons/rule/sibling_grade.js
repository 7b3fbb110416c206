// Grades a learner's rule for two siblings of a tree, which are drawn independently from q: its decisions in some rounds,
// then the chances of the word that it writes, which are enumerated, so that no chance is in the verdict. Knows no DOM.

import { isClose, problem, readHoles, readRow } from './rule_expression.js';

export const SIBLING_WORDS = ['sun', 'rain', 'wind', 'snow'];
export const SIBLING_P = [0.45, 0.3, 0.15, 0.1];
export const SIBLING_Q = [0.2, 0.05, 0.12, 0.63];
// [first sibling, second sibling, u of the first, u of the second]
/** @type {[number, number, number, number][]} */
export const SIBLING_ROUNDS = [
  [3, 2, 0.62, 0.41],
  [3, 3, 0.35, 0.09],
  [3, 1, 0.2, 0.97],
  [0, 3, 0.77, 0.5],
  [3, 2, 0.91, 0.84],
];
// ``names``: what an expression may use. p, q and rest are numbers of the second sibling in the second hole, and rows in
// the others; rest is what the first hole leaves of p.
export const SIBLING_HOLES = [
  { name: 'rest', label: 'The first is rejected. Go on with', names: ['p', 'q'] },
  { name: 'second', label: 'Accept the second when u <', names: ['p', 'q', 'rest'] },
  { name: 'both', label: 'Both are rejected. Draw from', names: ['p', 'q', 'rest'] },
];
const RIGHT = ['max(p - q, 0)', 'rest / q', 'max(rest - q, 0)'];
// [hole, what a learner may have written, the mistake in a sentence]
const MISTAKES = [
  [0, 'p', 'You go on with p, as if nothing had been tested. The words that q drafts often then come too often.'],
  [0, 'q', 'You go on with q, the drafter’s row. Then the target’s probabilities are lost.'],
  [0, 'abs(p - q)', 'The rest keeps words of which q had more than p. They have been accepted often enough.'],
  [0, 'max(q - p, 0)', 'That’s the wrong way round: the rest is what p has more of.'],
  [0, 'min(p, q)', 'That’s what an accepted draft has covered already, not the rest.'],
  [
    1,
    'p / q',
    'You test the second sibling against all of p. A part of p was used up by the first: test it against the rest.',
  ],
  [1, 'q / rest', 'The ratio is upside down: rejected where it should be accepted.'],
  [1, 'rest', 'You forgot to divide by q. A word that is drafted often has to be accepted less often.'],
  [1, '1', 'You accept it without a test, so the drafter’s probabilities come through.'],
  [1, 'p', 'You took p as the chance. It has to be the rest, divided by q.'],
  [
    2,
    'rest',
    'That’s left after one rejection. The second word was tested with q as well, so its share comes off once more.',
  ],
  [2, 'p', 'You draw from p, as if no sibling had been tested.'],
  [2, 'q', 'You draw from the drafter’s row. The target’s is wanted.'],
  [2, 'max(p - 2 * q, 0)', 'You took q off twice, but the rest has to be scaled to 1 in between.'],
];

function readSiblings(texts) {
  const [rest, second, both] = readHoles(texts, SIBLING_HOLES);
  const rows = { p: SIBLING_P, q: SIBLING_Q };
  rows.rest = readRow(rest.value(rows), 0, SIBLING_WORDS, rows);
  function chance(word) {
    const value = second.value({ p: SIBLING_P[word], q: SIBLING_Q[word], rest: rows.rest[word] });
    if (Array.isArray(value) || Number.isNaN(value)) throw problem(1, 'This must be one number.');
    return Math.min(1, Math.max(0, value));
  }
  return { chance, both: () => readRow(both.value(rows), 2, SIBLING_WORDS, rows) };
}

// The chance of each word to be written at the place.
export function siblingLaw(texts) {
  const { chance, both } = readSiblings(texts);
  const law = SIBLING_WORDS.map(() => 0);
  let rejected = 0;
  SIBLING_Q.forEach((q, first) => {
    const accepted = Math.min(1, SIBLING_P[first] / q);
    law[first] += q * accepted;
    rejected += q * (1 - accepted);
  });
  let none = rejected;
  SIBLING_Q.forEach((q, second) => {
    law[second] += rejected * q * chance(second);
    none -= rejected * q * chance(second);
  });
  if (none < 1e-12) return law;
  const row = both();
  return law.map((share, word) => share + none * row[word]);
}

// What a rule does in a round: the number of the accepted sibling, or null, with the row to draw from.
export function siblingDecision(texts, [first, second, u, other]) {
  const { chance, both } = readSiblings(texts);
  if (u < SIBLING_P[first] / SIBLING_Q[first]) return { accepted: 1, row: null };
  return other < chance(second) ? { accepted: 2, row: null } : { accepted: null, row: both() };
}

const rowWords = row => row.map((x, i) => `${SIBLING_WORDS[i]} ${x.toFixed(2)}`).join(', ');

function decisionWords(round, mine, its) {
  const [first, second, u, other] = round,
    head = `“${SIBLING_WORDS[first]}” (u = ${u}), then “${SIBLING_WORDS[second]}” (u = ${other})`;
  if (its.accepted === 1) return `${head}: the first is accepted, and the second is never tested.`;
  const does = ({ accepted }) => (accepted === 2 ? 'accept' : 'reject');
  const same = does(mine) === does(its);
  if (!same) return `${head}: you ${does(mine)} the second; the rule ${does(its)}s it.`;
  if (!mine.row) return `${head}: you accept the second, and so does the rule.`;
  const so = isClose(mine.row, its.row) ? ', and so does the rule.' : `; the rule draws from ${rowWords(its.row)}.`;
  return `${head}: both are rejected, and you draw from ${rowWords(mine.row)}${so}`;
}

// A rule is "right" or "wrong", with the sentence about each wrong hole, null for a mistake that isn't known.
export function gradeSiblings(texts) {
  const law = siblingLaw(texts),
    alone = SIBLING_HOLES.map((_, hole) => siblingLaw(RIGHT.map((right, i) => (i === hole ? texts[i] : right))));
  const mistakes = alone.flatMap((each, hole) => {
    if (isClose(each, SIBLING_P)) return [];
    const isKnown = ([at, text]) =>
      at === hole && isClose(siblingLaw(RIGHT.map((right, i) => (i === hole ? text : right))), each);
    return [{ hole, says: MISTAKES.find(isKnown)?.[2] ?? null }];
  });
  const differences = law.map((share, i) => Math.abs(share - SIBLING_P[i])),
    most = differences.indexOf(Math.max(...differences));
  return {
    verdict: isClose(law, SIBLING_P) && !mistakes.length ? 'right' : 'wrong',
    mistakes,
    most: { word: SIBLING_WORDS[most], share: law[most], wanted: SIBLING_P[most] },
    decisions: SIBLING_ROUNDS.map(round => {
      const [mine, its] = [texts, RIGHT].map(each => siblingDecision(each, round)),
        words = decisionWords(round, mine, its);
      const isRight = mine.accepted === its.accepted && (!mine.row || isClose(mine.row, its.row));
      return { isRight, words };
    }),
  };
}
