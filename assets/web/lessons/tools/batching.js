// Models many users on one device. A pass takes as long as the slower of reading and arithmetic.

import { quantity } from '../../lib/format.js';
import { expectedTokens, interpolate } from '../../lib/speedup_model.js';
import { makeCurveChoice, rest } from '../widgets/curve_choice.js';
import { DEVICES } from '../widgets/device_figures.js';
import { cacheOf, chosenModel, chosenWidth } from '../widgets/devices.js';
import { figure, makeNote, makeResult, meter, picker, short, slider } from '../widgets/widgets.js';
import { EXPERTS, ONE_TOKEN, weightsRead } from './experts.js';

// The time of a pass over ``tokens`` of all users, in readings of the weights for one token. ``free``: how many tokens
// are computed in that time. ``cache``: what a user's text adds to each reading, as a part of all weights. ``experts``:
// whether tokens choose weights, of which one token reads a part only.
export function passTime(tokens, users, { free, cache, experts }) {
  const weights = experts ? weightsRead(tokens) / weightsRead(1) : 1;
  return Math.max(weights + (users * cache) / (experts ? ONE_TOKEN : 1), tokens / free);
}

// ``settings``: users, text and experts to begin with.
export function makeBatching(settings, touched) {
  const users = slider('Users at once', { low: 1, high: 512, step: 1, value: settings.users ?? 1 });
  const full = slider('Tokens that fit into a pass at no extra time (bf16)', {
    low: 8,
    high: 512,
    step: 8,
    value: 128,
  });
  const gamma = slider('γ, tokens drafted', { low: 0, high: 8, step: 1, value: 4 });
  const alpha = slider('α, chance to be accepted', { low: 0, high: 0.98, step: 0.01, value: 0.7 });
  const text = slider('Tokens of text for each user', {
    low: 0,
    high: 131072,
    step: 1024,
    value: settings.text ?? 0,
    words: x => (x ? x.toLocaleString('en') : 'short'),
  });
  const device = picker('Device', [
    ['as set above', null],
    ...Object.entries(DEVICES).filter(([, each]) => each.operations),
  ]);
  const model = chosenModel('Target'),
    width = chosenWidth('Weights in', { bf16: 2, '8-bit': 1, '4-bit': 0.5 });
  const kind = picker(
    'Layers',
    [
      ['dense', false],
      [`${EXPERTS.used} of ${EXPERTS.all} experts for each token`, true],
    ],
    Number(settings.experts ?? false),
  );
  const plain = meter(),
    drafted = meter(),
    result = makeResult(),
    aside = makeNote(),
    choice = makeCurveChoice('as the device below says', draw);
  device.row.addEventListener('input', () => {
    if (device.value) full.value = 8 * Math.round((1000 * device.value.operations) / device.value.speed / 8);
  });

  function draw() {
    const weights = model.value.weights * width.value,
      cache = cacheOf(model.value, text.value),
      free = (full.value * width.value) / 2;
    const own = choice.curve;
    const time = tokens =>
      own
        ? interpolate(own.v, tokens)
        : passTime(tokens, users.value, { free, cache: cache / weights, experts: kind.value });
    rest([full.row, text.row, device.row, model.row, width.row, kind.row], own !== null);
    const wide = users.value * (gamma.value + 1),
      without = users.value / time(users.value),
      withDrafts = (users.value * expectedTokens(alpha.value, gamma.value)) / time(wide);
    const top = Math.max(without, withDrafts),
      gain = withDrafts / without;
    plain.set('plain', without / top, short(without));
    drafted.set('with drafts', withDrafts / top, short(withDrafts));
    if (gain >= 1.005) result.textContent = `Drafting gives ${short(gain)} × as many tokens.`;
    else if (gain > 0.995) result.textContent = 'Drafting changes nothing here.';
    else result.textContent = `Drafting slows everybody down: ${short(gain)} × as many tokens.`;
    result.dataset.gain = gain.toFixed(4);
    if (own)
      aside.textContent = `The pass has ${quantity(wide, 'row')}. ${wide > own.widest ? `Your curve ends at ${own.widest}, and goes on here as it ended.` : ''}`;
    else
      aside.textContent = `The pass has ${wide.toLocaleString('en')} tokens; while the weights are read there is time to compute ${short(free)}.${cache ? ` Caches add ${short(users.value * cache)} GB to ${short(weights)} GB of weights.` : ''}`;
  }
  return figure(
    'One device, many users',
    draw,
    touched,
    users.row,
    gamma.row,
    alpha.row,
    choice.row,
    full.row,
    text.row,
    device.row,
    model.row,
    width.row,
    kind.row,
    plain.row,
    drafted.row,
    result,
    aside,
    makeNote(
      'A model, not a measurement. A bar shows how many tokens all users get while the weights are read once, or in a plain step for one user on your machine. Drafts cost nothing here. Operations and bandwidth come from data sheets. With experts it shows the worst case, as if all tokens chose independently and nothing else took time; their share of the weights is Qwen3-30B-A3B’s.',
    ),
  );
}
