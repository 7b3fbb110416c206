// Works out the memory wall: every weight is read once for each pass, so bandwidth ÷ bytes is the ceiling.

import { DEVICES } from '../widgets/device_figures.js';
import { chosenDevice, chosenModel, chosenWidth, PRECISIONS_OF_WEIGHTS } from '../widgets/devices.js';
import { figure, makeNote, makeResult, meter, short } from '../widgets/widgets.js';

const READING = 5.6; // tokens a second: 238 words a minute, at 1.4 tokens a word

// ``speed`` in GB/s; ``gigabytes`` of weights.
export const passesPerSecond = (speed, gigabytes) => speed / gigabytes;

// ``machine``: GB/s that were measured on the machine of the lesson's run.
export function makeRoofline({ machine }, touched) {
  const OTHER_COSTS = 1000; // passes a second; above, starting the operations takes longer than reading the weights
  const result = makeResult(),
    aside = makeNote(),
    bar = meter();
  const model = chosenModel('Model'),
    width = chosenWidth('Precision', PRECISIONS_OF_WEIGHTS),
    device = chosenDevice('Device', { 'The machine of this run, measured': { speed: machine }, ...DEVICES });

  function draw() {
    const gigabytes = model.value.weights * width.value,
      { speed, memory } = device.value,
      ceiling = passesPerSecond(speed, gigabytes),
      fits = !memory || gigabytes < memory;
    bar.set('of 500', fits ? ceiling / 500 : 0, fits ? `${short(ceiling)}/s` : 'does not fit');
    result.dataset.fits = String(fits);
    if (!fits) result.textContent = `Does not fit: ${short(gigabytes)} GB of weights, and the device has ${memory}.`;
    else if (ceiling > OTHER_COSTS)
      result.textContent = `Over ${OTHER_COSTS.toLocaleString('en')} passes per second: at that speed something else becomes the limit first.`;
    else
      result.textContent = `At most ${short(ceiling)} passes per second, ${ceiling < READING ? 'slower than most people read' : 'as fast as most people read, or faster'}.`;
    aside.textContent = fits
      ? `${Number(short(speed)).toLocaleString('en')} GB/s ÷ ${short(gigabytes)} GB of weights. The real speed is lower, because the text so far is read, too.`
      : 'Fewer bits a weight, or a smaller model, would fit. Or several such devices together.';
  }
  return figure('Where is the ceiling?', draw, touched, model.row, width.row, device.row, result, bar.row, aside);
}
