// Draws the idealised speedup for every draft length, from α, c and the cost of a wider pass; one length can be held.

import { make } from '../../lib/dom.js';
import { breakEven, expectedTokens, idealisedSpeedup, interpolate } from '../../lib/speedup_model.js';
import { makeCurveChoice, rest } from '../widgets/curve_choice.js';
import { columns, figure, makeNote, makeResult, picker, short, slider } from '../widgets/widgets.js';

export function makeCurve(settings, touched) {
  const MOST = 10,
    chart = make('div'),
    result = makeResult(),
    aside = makeNote();
  const alpha = slider('α, chance to be accepted', { low: 0, high: 0.98, step: 0.01, value: settings.alpha ?? 0.6 });
  const cost = slider('c, cost of one draft step', {
    low: 0,
    high: 1,
    step: settings.precisions ? 0.001 : 0.01,
    value: settings.c ?? 0.1,
  });
  const wide = slider('extra cost of each token scored', {
    low: 0,
    high: 1,
    step: 0.01,
    value: settings.slope ?? 0.08,
  });
  const precision = picker('The target in', Object.entries(settings.precisions ?? {}));
  const held = slider('γ to look at', { low: 0, high: MOST, step: 1, value: settings.gamma ?? 4 }),
    one = makeResult(),
    choice = makeCurveChoice('as set below', draw);

  function draw() {
    const v = choice.curve?.round ?? { 1: 1, 2: 1 + wide.value };
    rest([wide.row], choice.curve !== null);
    const speedups = Array.from({ length: MOST + 1 }, (_, gamma) =>
      idealisedSpeedup(alpha.value, gamma, cost.value, v),
    );
    const best = speedups.indexOf(Math.max(...speedups)),
      tokens = expectedTokens(alpha.value, best);
    chart.replaceChildren(
      columns(speedups, {
        marked: best,
        level: 1,
        top: Math.max(1.5, ...speedups),
        name: `Speedup for draft lengths 0 to ${MOST}; best at ${best}`,
      }),
    );
    result.textContent = best
      ? `Best: γ = ${best}${best === MOST ? ' or more' : ''}, ${short(speedups[best])} × as fast, ${short(tokens)} tokens a round.`
      : 'Best: γ = 0. Here no draft pays.';
    one.textContent = held.value
      ? `γ = ${held.value}: ${short(speedups[held.value])} × as fast. ${pays(breakEven(held.value, cost.value, v))}`
      : 'γ = 0 is plain decoding: 1 × as fast.';
    const whole = settings.precisions
      ? ` With these bits a plain step is ${short(precision.value.fast)} × as fast as in fp32, so all in all it is ${short(precision.value.fast * speedups[best])} ×.`
      : '';
    aside.textContent = `A round of γ = ${best} costs ${short(best * cost.value)} for drafting and ${short(interpolate(v, best + 1))} for scoring, in plain steps.${whole}`;
    Object.assign(aside.dataset, { best, speedup: speedups[best].toFixed(4) });
  }
  function pays(from) {
    if (from === null) return 'No α is high enough for it to pay.';
    return from === 0 ? 'It never loses, whatever α is.' : `It pays once α is above ${from.toFixed(2)}.`;
  }
  // The costs of the chosen precision, before anything is drawn with them.
  function choose() {
    [cost.value, wide.value] = [precision.value.c, precision.value.slope];
  }
  if (settings.precisions) {
    choose();
    precision.row.addEventListener('input', choose);
  }
  return figure(
    'Speedup for every draft length γ',
    draw,
    touched,
    ...(settings.precisions ? [precision.row] : []),
    alpha.row,
    cost.row,
    choice.row,
    wide.row,
    held.row,
    chart,
    result,
    one,
    aside,
    makeNote(
      'With the slider each further token of a pass has the same price. The measured widths differ a little from such a line. The Lab’s Theory takes v(W) of a machine of your own, which this and other lessons then use.',
    ),
  );
}
