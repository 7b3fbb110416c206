// Adds up the memory of two models and their caches: weights × bytes, and a key and a value per token and layer.

function makeMemory(settings, touched) {
  // [parameters in billions, layers, key and value heads, head size]
  const models = [['none', [0, 0, 0, 0]], ['SmolLM2 135M', [0.135, 30, 3, 64]], ['Qwen3 0.6B', [0.596, 28, 8, 128]], ['Llama 3.2 1B', [1.236, 16, 8, 64]],
    ['Qwen3 4B', [4.022, 36, 8, 128]], ['Llama 3.1 8B', [8.03, 32, 8, 128]], ['Qwen3 8B', [8.19, 36, 8, 128]], ['Llama 3.3 70B', [70.55, 80, 8, 128]]];
  const widths = [['bf16', 2], ['8-bit', 1], ['4-bit', 0.5], ['fp32', 4]];
  const target = picker('Target', models.slice(1), 4), draft = picker('Draft', models, 3), width = picker('Weights', widths);
  const context = slider('Tokens of text', { low: 512, high: 131072, step: 512, value: 8192, words: x => x.toLocaleString('en') });
  const users = slider('Users at once', { low: 1, high: 64, step: 1, value: 1 });
  const lines = ['target, weights', 'draft, weights', 'target, cache', 'draft, cache'].map(name => ({ name, bar: meter() }));
  const result = makeResult();
  const cache = ([, layers, heads, size]) => 2 * layers * heads * size * 2 * context.value * users.value / 1e9;

  function draw() {
    const sizes = [target.value[0] * width.value, draft.value[0] * width.value, cache(target.value), cache(draft.value)];
    const all = sizes.reduce((a, b) => a + b, 0);
    lines.forEach(({ name, bar }, i) => bar.set(name, sizes[i] / all, `${short(sizes[i])} GB`));
    const extra = sizes[1] + sizes[3];
    result.textContent = `${short(all)} GB together; ${short(extra)} GB of it is the price of the draft.`;
  }
  return figure('What both models take', draw, touched, target.row, draft.row, width.row, context.row, users.row, ...lines.map(each => each.bar.row), result,
    make('p', 'sl-figure-note', 'The cache is counted in 16 bits. Working memory comes on top.'));
}
