// Turns logits into chances at a temperature, for three words. At 0 only the likeliest is left.

import { percent } from '../../lib/format.js';
import { figure, makeResult, meter, slider } from '../widgets/widgets.js';

// Chances that add up to 1, from logits; temperature 0 is greedy.
export function softmax(logits, temperature) {
  const most = Math.max(...logits);
  if (temperature === 0) return logits.map((x, i) => Number(i === logits.indexOf(most)));
  const powers = logits.map(x => Math.exp((x - most) / temperature)),
    sum = powers.reduce((a, b) => a + b, 0);
  return powers.map(x => x / sum);
}

// ``settings``: each word's chance at temperature 1. The lowest logit is drawn as 0, because only differences count.
export function makeTemperature(settings, touched) {
  const words = Object.keys(settings),
    least = Math.min(...Object.values(settings));
  const logits = words.map(word => Math.log(settings[word] / least));
  const temperature = slider('Temperature', { low: 0, high: 2, step: 0.1, value: 1 }),
    bars = words.map(() => meter('sl-meter-p')),
    result = makeResult();

  function draw() {
    const chances = softmax(logits, temperature.value);
    bars.forEach((bar, i) => bar.set(`${words[i]}, logit ${logits[i].toFixed(2)}`, chances[i], percent(chances[i])));
    const first = words[chances.indexOf(Math.max(...chances))];
    if (temperature.value === 0) result.textContent = `Greedy: always ${first}.`;
    else if (temperature.value === 1) result.textContent = 'Temperature 1: the probabilities as the model gives them.';
    else if (temperature.value > 1) result.textContent = 'Above 1 the probabilities move closer together.';
    else
      result.textContent = `Below 1 the favourite gains: ${first} comes in ${percent(Math.max(...chances))} of cases.`;
  }
  return figure('From logits to probabilities', draw, touched, temperature.row, ...bars.map(bar => bar.row), result);
}
