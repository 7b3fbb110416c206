// Works out the memory wall: every weight is read once for each pass, so bandwidth ÷ bytes is the ceiling.

function makeRoofline(settings, touched) {
  const sizes = [['SmolLM2 135M', 0.135], ['Llama 3.2 1B', 1.24], ['Qwen3 4B', 4.02], ['Llama 3.1 8B', 8.03], ['a 32B model', 32], ['Llama 3.3 70B', 70.6]];
  const widths = [['fp32, 4 bytes a weight', 4], ['bf16, 2 bytes', 2], ['8-bit, 1 byte', 1], ['4-bit, half a byte', 0.5]];
  // GB/s by the makers' data sheets: two channels of DDR4-3200 and DDR5-5600, then unified or graphics memory
  const devices = [['PC with DDR4-3200, 51 GB/s', 51.2], ['PC with DDR5-5600, 90 GB/s', 89.6], ['Apple M3 Max, 400 GB/s', 400],
    ['RTX 4090, 1,008 GB/s', 1008], ['A100 80 GB, 2,039 GB/s', 2039], ['H100 SXM, 3,350 GB/s', 3350], ['H200, 4,800 GB/s', 4800]];
  const result = makeResult(), aside = make('p', 'sl-figure-note'), bar = meter();
  const size = picker('Model', sizes, 3), width = picker('Precision', widths, 1), device = picker('Memory', devices, 3);

  function draw() {
    const gigabytes = size.value * width.value, ceiling = device.value / gigabytes;
    result.textContent = `At most ${short(ceiling)} tokens per second, one at a time.`;
    aside.textContent = `${short(device.value)} GB/s ÷ ${short(gigabytes)} GB of weights. The real speed is lower: the cache of the text is read, too.`;
    bar.set('of 500', ceiling / 500, `${short(ceiling)}/s`);
  }
  return figure('Where is the ceiling?', draw, touched, size.row, width.row, device.row, result, bar.row, aside);
}
