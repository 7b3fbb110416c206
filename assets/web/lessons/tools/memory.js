// Adds up the memory of two models and their caches, and says whether a device holds them.

import { wholePercent } from '../../lib/format.js';
import { MODELS } from '../widgets/device_figures.js';
import { cacheOf, chosenDevice, chosenModel, chosenWidth } from '../widgets/devices.js';
import { figure, makeNote, makeResult, meter, picker, short, slider } from '../widgets/widgets.js';

export function makeMemory(settings, touched) {
  const target = chosenModel('Target'),
    draft = picker('Draft model', [['none', null], ...Object.entries(MODELS)], 3);
  const widths = { bf16: 2, '8-bit': 1, '4-bit': 0.5, fp32: 4 },
    device = chosenDevice('Device');
  const targetWidth = chosenWidth('Target in', widths),
    draftWidth = picker('Draft in', Object.entries(widths));
  const context = slider('Tokens of text', {
    low: 512,
    high: 131072,
    step: 512,
    value: 8192,
    words: x => x.toLocaleString('en'),
  });
  const users = slider('Users at once', { low: 1, high: 64, step: 1, value: 1 });
  const lines = ['target, weights', 'draft, weights', 'target, cache', 'draft, cache'].map(name => ({
    name,
    bar: meter(),
  }));
  const result = makeResult(),
    crowd = makeNote(),
    aside = makeNote();

  function draw() {
    const tokens = context.value * users.value,
      [large, small] = [target.value, draft.value];
    const sizes = [
      large.weights * targetWidth.value,
      small ? small.weights * draftWidth.value : 0,
      cacheOf(large, tokens),
      cacheOf(small, tokens),
    ];
    const all = sizes.reduce((a, b) => a + b, 0),
      { memory } = device.value,
      fits = all <= memory,
      extra = sizes[1] + sizes[3];
    lines.forEach(({ name, bar }, i) => bar.set(name, sizes[i] / Math.max(all, memory), `${short(sizes[i])} GB`));
    result.dataset.fits = String(fits);
    result.textContent = `That’s ${short(all)} GB in all, which ${fits ? 'fits' : 'doesn’t fit'} into ${memory} GB. The draft model takes ${short(extra)} GB of it.`;
    const free = memory - sizes[0],
      alone = Math.floor(Math.max(0, free) / cacheOf(large, context.value)),
      both = Math.floor(Math.max(0, free - sizes[1]) / (cacheOf(large, context.value) + cacheOf(small, context.value)));
    crowd.textContent = `Users with such texts that fit: ${alone} without a draft model${small ? `, ${both} with it` : ''}.`;
    Object.assign(crowd.dataset, { alone, both });
    aside.textContent = `${note(large, small)} A GB is a billion bytes. The cache takes 16 bits for each number, and working memory comes on top.`;
  }
  function note(large, small) {
    if (!small) return 'Without a draft model there is nothing more to store.';
    if (large.family !== small.family)
      return `A ${small.family} tokenizer does not fit a ${large.family} target: this pair would need its drafts translated.`;
    return `A token of text takes ${wholePercent(cacheOf(small, 1) / cacheOf(large, 1))} as much cache in the draft model as in the target.`;
  }
  return figure(
    'What both models take up',
    draw,
    touched,
    target.row,
    targetWidth.row,
    draft.row,
    draftWidth.row,
    device.row,
    context.row,
    users.row,
    ...lines.map(each => each.bar.row),
    result,
    crowd,
    aside,
  );
}
