// Shows the numbers of runs without their names, and asks for the trouble of each.

import { make, makeButton } from '../lib/dom.js';
import { burstBars } from './bursts.js';
import { figure, makeResult } from './widgets.js';

// The trouble of a run, as its counts alone tell it. A run is { tokens, passes, drafted, accepted,
// tested, empty: rounds without a draft, bursts: the tokens of each pass }.
export const TROUBLES = {
  wiring: {
    name: 'wired up wrongly',
    why: 'Not one draft was accepted. A poor drafter is right now and then; exactly 1.00 over a long time means it isn’t connected to this model as it should be.',
  },
  nothing: {
    name: 'little to copy',
    why: 'In most rounds nothing was drafted at all. A copier has no idea here, and it costs next to nothing.',
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

const percent = (part, all) => `${all ? Math.round((100 * part) / all) : 0} %`;
const signs = ({ tokens, passes, drafted, accepted, tested, empty }) => [
  ['tokens a pass', (tokens / passes).toFixed(2)],
  ['drafts a pass', (drafted / passes).toFixed(1)],
  ['drafts tested', percent(tested, drafted)],
  ['of those accepted', percent(accepted, tested)],
  ['passes without a draft', percent(empty, passes)],
];

// ``runs``: by name, the counts and the bursts of a run.
export function makeUnknownRuns({ runs }, touched) {
  const cases = Object.entries(runs).sort(([a], [b]) => a.localeCompare(b));
  const where = make('p', 'sl-figure-note'),
    bars = make('div', 'sl-bursts-box'),
    list = make('dl', 'sl-signs'),
    result = makeResult();
  const answers = Object.entries(TROUBLES).map(([cause, { name }]) =>
    makeButton(name, () => answer(cause), 'sl-button', { 'data-cause': cause }),
  );
  const next = makeButton('Next run', () => {
    at = (at + 1) % cases.length;
    if (!at) right = 0;
    show();
  });
  let at = 0,
    right = 0,
    isOver = false;

  function show() {
    const [name, run] = cases[at];
    isOver = false;
    next.hidden = true;
    bars.replaceChildren(burstBars(run.bursts, name));
    list.replaceChildren(...signs(run).flatMap(([words, value]) => [make('dt', '', words), make('dd', '', value)]));
    answers.forEach(each => delete each.dataset.right);
    result.textContent = '';
    where.textContent = `${name}, ${at + 1} of ${cases.length}.`;
  }
  function answer(chosen) {
    if (isOver) return;
    const cause = causeOf(cases[at][1]),
      isRight = chosen === cause,
      isLast = at === cases.length - 1;
    isOver = true;
    right += isRight;
    for (const each of answers)
      if ([cause, chosen].includes(each.dataset.cause)) each.dataset.right = each.dataset.cause === cause;
    result.textContent = `${isRight ? 'Right.' : `Not this one. It is “${TROUBLES[cause].name}”.`} ${TROUBLES[cause].why}`;
    next.textContent = isLast ? 'Once more' : 'Next run';
    next.hidden = false;
    if (isLast) where.textContent = `You found ${right} of ${cases.length}.`;
    touched();
  }
  return figure(
    'Find the trouble',
    show,
    () => {},
    where,
    bars,
    list,
    make('div', 'sl-buttons', answers),
    result,
    make('div', 'sl-buttons', [next]),
    make('p', 'sl-figure-note', 'Bars: how many tokens each pass wrote. “Run 4” is made up, the others were recorded.'),
  );
}
