// Shows reports of engine/tools/servers/check_server.py, and asks of each whether it is a tie, a bug, or says too little.

import { make } from '../../lib/dom.js';
import { makeCases } from '../widgets/cases.js';

const SAMPLED = 'Sampled, 400 a side: chi-squared',
  CLEAN = 'Greedy, yardstick, no drafts: 0 of 5 texts differ; none.';
const strays = (change, tie) =>
  `Without drafts a log-probability changed by up to ${change}, so a gap up to ${tie} may be a tie.`;
// A test holds that the script's own limits judge these so. Invented, in the script's words.
export const REPORTS = [
  {
    lines: [
      'Greedy, yardstick, no drafts: 1 of 5 texts differ; token 31: gap 0.125.',
      'Greedy, with drafts: 2 of 5 texts differ; token 12: gap 0.062, token 31: gap 0.125.',
      strays('0.031', '0.300'),
      `${SAMPLED} 9.1, 8 degrees of freedom, p = 0.33.`,
    ],
    verdict: 'tie',
    why: 'Both gaps are as narrow as the one where plain decoding differs from itself, and the counts agree.',
  },
  {
    lines: [
      CLEAN,
      'Greedy, with drafts: 1 of 5 texts differ; token 22: gap 0.840.',
      strays('0.510', '1.020'),
      `${SAMPLED} 6.3, 8 degrees of freedom, p = 0.62.`,
    ],
    verdict: 'tie',
    why: 'The gap looks wide, but this engine strays by half as much without any drafts: it computes in eight bits.',
  },
  {
    lines: [
      CLEAN,
      'Greedy, with drafts: 1 of 5 texts differ; token 7: gap 4.310.',
      strays('0.000', '0.300'),
      `${SAMPLED} 7.4, 8 degrees of freedom, p = 0.49.`,
    ],
    verdict: 'bug',
    why: 'No rounding reaches across a gap of 4. One such place is enough, even if the counts at another place agree.',
  },
  {
    lines: [
      CLEAN,
      'Greedy, with drafts: 0 of 5 texts differ; none.',
      strays('0.016', '0.300'),
      `${SAMPLED} 58.2, 8 degrees of freedom, p = 3.5e-09.`,
    ],
    verdict: 'bug',
    why: 'The greedy texts agree, but the sampled words come in other shares. Chance alone does that a few times in a billion at most.',
  },
  {
    lines: [
      CLEAN,
      'Greedy, with drafts: 0 of 5 texts differ; none.',
      strays('0.000', '0.300'),
      'Sampled, 10 a side: chi-squared 0.8, 1 degree of freedom, p = 0.37.',
    ],
    verdict: 'little',
    why: 'Ten draws would miss almost any mistake. Five equal texts and ten words are no proof: draw more.',
  },
];
const VERDICTS = { tie: 'Only ties', bug: 'A bug', little: 'Too little to say' };
const MEANS = {
  tie: "That would need gaps as narrow as the yardstick's, and counts that agree.",
  bug: 'That would need a wide gap, or counts that chance does not give.',
  little: 'You could decide this one: there is enough evidence.',
};

export function makeReports(_, touched) {
  const report = make('pre', 'sl-command sl-engine-report', '', {
    tabindex: '0',
    role: 'region',
    'aria-label': 'Report',
  });
  const settings = {
    cases: REPORTS,
    noun: 'report',
    verdicts: VERDICTS,
    verdictOf: ({ verdict }) => verdict,
    parts: [report],
    draw({ lines }) {
      report.textContent = lines.join('\n');
    },
    reply: ({ verdict, why }, chosen) =>
      chosen === verdict ? `Right. ${why}` : `${MEANS[chosen]} It is “${VERDICTS[verdict]}”: ${why}`,
    note: 'Invented reports, as the script prints them.',
  };
  return makeCases('Tie or bug?', settings, touched);
}
