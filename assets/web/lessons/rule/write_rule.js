// Lets learners write the rule themselves: three holes, filled with blocks or with an expression, and graded.

import { make } from '../../lib/dom.js';
import { wholePercent } from '../../lib/format.js';
import { gradeRule, HOLES, ROUNDS } from './rule_grade.js';
import { makeHoles } from './rule_holes.js';

const BLOCKS = [
  ['p', 'q / p', 'min(1, p / q)', 'p > q', '1'],
  ['q', 'p', 'abs(p − q)', 'p − q', 'max(p − q, 0)'],
  ['max(p − q, 0)', 'before', 'q', 'p'],
];
const NOTES = [
  'Here p and q are the draft’s own. With u in it, as in u * q < p, it’s the whole condition. “later” is the draft’s p one row later.',
  'Here p and q are rows, with a number for each word. They are scaled to 1 before the draw.',
  'p: the target’s row after the last draft. q and “before”: the drafter’s row and the target’s, one place earlier.',
];

function sentenceOf({ verdict, most, alpha, rightAlpha }) {
  const [all, seen, wanted] = [ROUNDS, most.seen, most.wanted].map(count => count.toLocaleString('en'));
  const rounds = `In ${all} rounds of another pair, “${most.text}” came ${seen} times; the target alone would write it about ${wanted} times.`;
  const shares = `It accepts ${wholePercent(alpha)} of the tested drafts, the right one ${wholePercent(rightAlpha)}.`;
  if (verdict === 'wrong') return `This rule changes the odds of the text. ${rounds} ${shares}`;
  const chance =
    'No other text was further off, and that much is chance: worked out exactly, every text comes as often as it should.';
  if (verdict === 'right') return `You’ve written the rule. ${rounds} ${chance}`;
  return `This is lossless, but it isn’t the rule. ${rounds} ${chance} ${shares}`;
}

function mistakeNode({ hole, known, words }) {
  if (!known) return make('p', '', `${HOLES[hole].label} …: ${words}`);
  const says = [known.words, known.resembles].filter(Boolean).join(' ');
  return make('p', '', [`${HOLES[hole].label} …: the known mistake `, make('code', '', known.name), `. ${says}`]);
}

// ``exercise``: as `gradeRule` takes it.
export function makeWriteRule({ exercise }, touched) {
  function grade(texts) {
    const graded = gradeRule(exercise, texts),
      { verdict, mistakes, decisions } = graded;
    return {
      verdict,
      words: sentenceOf(graded),
      mistakes: verdict === 'wrong' ? mistakes.map(mistakeNode) : [],
      title: 'Each decision in the run of lesson 3:',
      decisions,
    };
  }
  const holes = HOLES.map(({ label }, hole) => ({ label, blocks: BLOCKS[hole], note: NOTES[hole] }));
  return makeHoles({ title: 'The rule in three holes', holes, grade }, touched);
}
