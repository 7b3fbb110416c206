// Works out the cost of a million tokens when a part of the traffic fits the draft badly. Times add up, speeds do not.

import { wholePercent } from '../../lib/format.js';
import { figure, makeNote, makeResult, meter, picker, short, slider } from '../widgets/widgets.js';

// The harmonic mean of speeds: tokens a second overall, from [[share of the tokens, speed], …].
export const overall = parts => 1 / parts.reduce((time, [share, speed]) => time + share / speed, 0);
const perMillion = (hour, speed) => (hour / (3600 * speed)) * 1e6;
// The share of badly fitting tokens from which on drafting always saves nothing.
const turningShare = (good, bad) => (1 - 1 / good) / (1 / bad - 1 / good);

export function makeCost(settings, touched) {
  const hour = slider('Price of the machine, an hour', { low: 0.1, high: 20, step: 0.1, value: 2 });
  const plain = slider('Tokens a second without drafts', { low: 5, high: 500, step: 5, value: 50 });
  const share = slider('Share of tokens that are hard to guess', {
    low: 0,
    high: 1,
    step: 0.01,
    value: 0.2,
    words: wholePercent,
  });
  const good = slider('Speedup on easy text', { low: 1, high: 5, step: 0.01, value: settings.good });
  const bad = slider('Speedup on hard text', { low: 0.2, high: 1, step: 0.01, value: settings.bad });
  const NAMES = { always: 'always', never: 'never', off: 'off for hard text' };
  const policy = picker(
    'Draft',
    Object.entries(NAMES).map(([name, words]) => [words, name]),
  );
  const bars = Object.fromEntries(Object.keys(NAMES).map(name => [name, meter()])),
    result = makeResult(),
    aside = makeNote();

  // The policy's speedups on easy and on hard text.
  const speedups = name => ({ always: [good.value, bad.value], never: [1, 1], off: [good.value, 1] })[name];
  function speed(name) {
    const [well, badly] = speedups(name);
    return (
      plain.value *
      overall([
        [1 - share.value, well],
        [share.value, badly],
      ])
    );
  }

  function draw() {
    const costs = Object.fromEntries(Object.keys(NAMES).map(name => [name, perMillion(hour.value, speed(name))])),
      most = Math.max(...Object.values(costs));
    for (const [name, { set, row }] of Object.entries(bars)) {
      set(NAMES[name], costs[name] / most, costs[name].toFixed(2));
      row.classList.toggle('sl-meter-p', name === policy.value);
    }
    const now = costs[policy.value],
      than = costs.never,
      saved = 1 - now / than;
    result.textContent =
      `${short(speed(policy.value))} tokens a second, so a million tokens cost ${now.toFixed(2)}, ` +
      (Math.abs(saved) < 0.005
        ? 'the same as without drafts.'
        : `${wholePercent(Math.abs(saved))} ${saved > 0 ? 'less' : 'more'} than without drafts (${than.toFixed(2)}).`);
    const turn = turningShare(good.value, bad.value);
    aside.textContent =
      (turn < 1
        ? `From ${wholePercent(turn)} hard tokens on, “always” costs more than “never”.`
        : 'With these speedups, “always” never costs more than “never”.') +
      ' The times of both kinds add up, so the speed overall is their harmonic mean.';
    Object.assign(result.dataset, { cost: now.toFixed(4), plain: than.toFixed(4) });
  }
  return figure(
    'What a million tokens cost',
    draw,
    touched,
    share.row,
    policy.row,
    good.row,
    bad.row,
    hour.row,
    plain.row,
    ...Object.values(bars).map(each => each.row),
    result,
    aside,
  );
}
