// Shows the numbers of runs without their names, and asks for the trouble of each.

import { make } from '../../lib/dom.js';
import { wholePercent } from '../../lib/format.js';
import { makeCases, namesOf } from '../widgets/cases.js';
import { makeSigns } from '../widgets/widgets.js';
import { burstBars } from './bursts.js';

// The trouble of a run, as its counts alone tell it. A run is { tokens, passes, drafted, accepted,
// tested, empty: rounds without a draft, bursts: the tokens of each pass }.
const TROUBLES = {
  wiring: {
    name: 'wired up wrongly',
    why: 'Not one draft was accepted. A poor drafter is right now and then; exactly 1.00 over a long time means it isn’t connected to this model as it should be.',
  },
  nothing: {
    name: 'little to copy',
    why: 'In most rounds nothing was drafted at all. A copier finds nothing here, and that costs next to nothing.',
  },
  wide: {
    name: 'too many rows a pass',
    why: 'Each pass reads more than ten tokens, and hardly any of them is accepted. That’s for devices where rows are free.',
  },
  long: {
    name: 'γ too long',
    why: 'Most drafts were never even tested: the round had ended before. Shorter drafts would lose almost nothing.',
  },
  healthy: {
    name: 'nothing is wrong',
    why: 'Most drafts are accepted, and a pass writes several tokens. Leave it alone.',
  },
};

export function causeOf({ passes, drafted, accepted, tested, empty }) {
  if (drafted && !accepted) return 'wiring';
  if (empty > passes / 2) return 'nothing';
  if (accepted > drafted / 2) return 'healthy';
  return drafted > 10 * passes ? 'wide' : tested < drafted / 2 ? 'long' : '';
}

const percent = (part, all) => wholePercent(all && part / all);
const signsOf = ({ tokens, passes, drafted, accepted, tested, empty }) => [
  ['tokens per pass', (tokens / passes).toFixed(2)],
  ['drafts per pass', (drafted / passes).toFixed(1)],
  ['drafts tested', percent(tested, drafted)],
  ['of those accepted', percent(accepted, tested)],
  ['passes without a draft', percent(empty, passes)],
];

// ``runs``: by name, the counts and the bursts of a run; ``note``: which of them were recorded.
export function makeUnknownRuns({ runs, note }, touched) {
  const bars = make('div', 'sl-bursts-box'),
    signs = makeSigns();
  const settings = {
    cases: Object.entries(runs).sort(([a], [b]) => a.localeCompare(b)),
    noun: 'run',
    verdicts: namesOf(TROUBLES),
    verdictOf: ([, run]) => causeOf(run),
    parts: [bars, signs.node],
    draw([name, run]) {
      bars.replaceChildren(burstBars(run.bursts, name));
      signs.set(signsOf(run));
    },
    reply([, run], chosen) {
      const cause = causeOf(run),
        { name, why } = TROUBLES[cause];
      return `${chosen === cause ? 'Right.' : `Not this one. It is “${name}”.`} ${why}`;
    },
    note: `Bars: how many tokens each pass wrote. ${note}`,
  };
  return makeCases('Find the trouble', settings, touched);
}
