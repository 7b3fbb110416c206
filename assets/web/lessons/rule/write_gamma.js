// Lets learners write how γ is chosen for an α and a c: one more hole.

import { make } from '../../lib/dom.js';
import { GAMMA_HOLES, GAMMA_SETTINGS, gradeGamma, MOST_DRAFTS } from './gamma_grade.js';
import { makeHoles } from './rule_holes.js';

const BLOCKS = ['tokens', 'tokens − gamma * c', 'tokens / (gamma * c)', 'tokens / (1 + gamma * c)', 'alpha ^ gamma'];
const NOTE = `“tokens” is what a round writes on average, (1 − alpha^(gamma + 1)) / (1 − alpha). A draft step costs c, the pass costs 1, and γ goes from 0 to ${MOST_DRAFTS}.`;

function sentenceOf({ verdict, count, worst }) {
  if (verdict === 'right') return `You’ve got it: the fastest γ at all ${GAMMA_SETTINGS.length} settings of α and c.`;
  const { alpha, c, gamma, best, mine, its } = worst;
  return `At ${count} of ${GAMMA_SETTINGS.length} settings another γ is faster. The worst: at α = ${alpha} and c = ${c} it takes ${gamma} and runs at ${mine.toFixed(2)} ×; γ = ${best} gives ${its.toFixed(2)} ×.`;
}

export function makeWriteGamma(touched) {
  function grade(texts) {
    const graded = gradeGamma(texts),
      isRight = graded.verdict === 'right';
    return {
      ...graded,
      words: sentenceOf(graded),
      mistakes: isRight ? [] : [make('p', '', graded.says ?? 'This is wrong, in a way that has no name here.')],
      title: 'Six of the settings:',
    };
  }
  const holes = GAMMA_HOLES.map(({ label }) => ({ label, blocks: BLOCKS, note: NOTE }));
  return makeHoles({ title: 'γ for an α and a c', holes, grade }, touched);
}
