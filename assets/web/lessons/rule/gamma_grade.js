// Grades a learner's way to choose γ for an α and a c: the γ that it takes at each of some settings. Knows no DOM.

import { bestGamma, expectedTokens, idealisedSpeedup } from '../../lib/speedup_model.js';
import { problem, readHoles } from './rule_expression.js';

export const MOST_DRAFTS = 10;
export const GAMMA_SETTINGS = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9].flatMap(alpha =>
  [0.02, 0.05, 0.1, 0.2, 0.4].map(c => ({ alpha, c })),
);
const LISTED = [3, 7, 13, 18, 22, 29]; // of the settings, for the learner to read
const FREE = { 1: 1, 2: 1 }; // a pass costs 1, however many tokens it scores
const NEARLY = 0.999; // a γ that is less than a thousandth slower is right, too
// ``tokens``: what a round of γ drafts writes on average.
export const GAMMA_HOLES = [
  { name: 'measure', label: 'Take the γ with the largest', names: ['tokens', 'alpha', 'gamma', 'c'] },
];
// [what a learner may have written, the mistake in a sentence]; another text that takes the same γ everywhere gets the same
// sentence.
const MISTAKES = [
  [
    'tokens',
    'It always takes the longest. Either the cost is missing, or every draft gets the chance α, although late ones are rarely reached.',
  ],
  ['1 / (1 + gamma * c)', 'It never drafts. Is the number of tokens in it?'],
  ['tokens - gamma * c', 'You subtracted the cost. A speed is tokens divided by time.'],
  [
    '(tokens - 1) / (1 + gamma * c)',
    'You left out the target’s own token, or used γ instead of γ + 1. A round writes one token more than it accepts.',
  ],
  ['tokens / (1 + (gamma + 1) * c)', 'You counted γ + 1 draft steps. The last token of a round is the target’s own.'],
  [
    '(1 + alpha * gamma) / (1 + gamma * c)',
    'You gave each draft the chance α. It’s tested only if all before it were accepted.',
  ],
];

function choicesOf(text) {
  const [{ value }] = readHoles([text], GAMMA_HOLES);
  return GAMMA_SETTINGS.map(({ alpha, c }) => {
    const values = Array.from({ length: MOST_DRAFTS + 1 }, (_, gamma) =>
      value({ alpha, c, gamma, tokens: expectedTokens(alpha, gamma) }),
    );
    if (values.some(x => typeof x !== 'number' || Number.isNaN(x)))
      throw problem(0, 'This must be one number for every γ.');
    if (!values.every(Number.isFinite))
      throw problem(0, 'Without drafts it divides by 0. A round of γ = 0 still costs the target’s pass: 1.');
    return values.indexOf(Math.max(...values));
  });
}

// "right", or "wrong" with the sentence about the mistake, if it is known. ``worst``: where it loses most.
export function gradeGamma([text]) {
  const choices = choicesOf(text ?? '');
  const graded = GAMMA_SETTINGS.map(({ alpha, c }, i) => {
    const best = bestGamma(alpha, c, FREE, MOST_DRAFTS),
      [mine, its] = [choices[i], best].map(gamma => idealisedSpeedup(alpha, gamma, c, FREE));
    return { alpha, c, gamma: choices[i], best, mine, its, isRight: mine >= NEARLY * its };
  });
  const wrong = graded.filter(each => !each.isRight);
  const known = MISTAKES.find(([wrongText]) => choicesOf(wrongText).every((gamma, i) => gamma === choices[i]));
  return {
    verdict: wrong.length ? 'wrong' : 'right',
    count: wrong.length,
    says: wrong.length ? (known?.[1] ?? null) : null,
    worst: wrong.reduce((a, b) => (!a || b.mine / b.its < a.mine / a.its ? b : a), null),
    decisions: LISTED.map(i => ({ isRight: graded[i].isRight, words: decisionWords(graded[i]) })),
  };
}

function decisionWords({ alpha, c, gamma, best, mine, its, isRight }) {
  const place = `α = ${alpha}, c = ${c}: you take γ = ${gamma}`;
  if (isRight) return `${place}, ${mine.toFixed(2)} × as fast as plain. None is faster.`;
  return `${place}, ${mine.toFixed(2)} × as fast as plain. γ = ${best} would be ${its.toFixed(2)} ×.`;
}
