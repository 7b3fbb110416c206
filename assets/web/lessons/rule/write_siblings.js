// Lets learners write the rule for siblings of a tree: three more holes.

import { make } from '../../lib/dom.js';
import { percent } from '../../lib/format.js';
import { makeHoles } from './rule_holes.js';
import { gradeSiblings, SIBLING_HOLES, SIBLING_P, SIBLING_Q, SIBLING_WORDS } from './sibling_grade.js';

const BLOCKS = [
  ['p', 'q', 'p − q', 'max(q − p, 0)', 'max(p − q, 0)'],
  ['p / q', 'rest', 'rest / q', 'q / rest', '1'],
  ['p', 'rest', 'max(p − q, 0)', 'max(rest − q, 0)', 'q'],
];
const NOTES = [
  'p and q are rows, with a number for each word. The result, called “rest”, is scaled to 1.',
  'p, q and rest are the numbers of the second word. Both words were drawn from q, independently.',
  'p, q and rest are rows. The result is scaled to 1.',
];

const ROWS = SIBLING_WORDS.map(
  (word, i) => `${word} p = ${SIBLING_P[i].toFixed(2)}, q = ${SIBLING_Q[i].toFixed(2)}`,
).join('; ');

function sentenceOf({ verdict, most }) {
  const [share, wanted] = [most.share, most.wanted].map(percent);
  if (verdict === 'right')
    return 'You’ve written the rule for siblings. Every word comes out with exactly the target’s chance.';
  return `This rule changes the odds. “${most.word}” comes out with ${share}; the target alone writes it with ${wanted}.`;
}

const nodeOf = ({ hole, says }) =>
  make('p', '', `${SIBLING_HOLES[hole].label} …: ${says ?? 'this is wrong, in a way that has no name here.'}`);

export function makeWriteSiblings(touched) {
  function grade(texts) {
    const graded = gradeSiblings(texts);
    return {
      ...graded,
      words: sentenceOf(graded),
      mistakes: graded.mistakes.map(nodeOf),
      title: `Five rounds, with ${ROWS}:`,
    };
  }
  const holes = SIBLING_HOLES.map(({ label }, hole) => ({ label, blocks: BLOCKS[hole], note: NOTES[hole] }));
  return makeHoles({ title: 'Two words for one place', holes, grade }, touched);
}
