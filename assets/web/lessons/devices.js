// Lists the models and devices of the calculators, from model cards and the makers' data sheets.
import { picker, short } from './widgets.js';

// billions of weights; layers; key-value heads and their size, for the cache
export const MODELS = {
  'SmolLM2 135M': { weights: 0.135, layers: 30, heads: 3, size: 64, family: 'SmolLM2' },
  'Qwen3 0.6B': { weights: 0.596, layers: 28, heads: 8, size: 128, family: 'Qwen3' },
  'Llama 3.2 1B': { weights: 1.236, layers: 16, heads: 8, size: 64, family: 'Llama 3' },
  'Qwen3 4B': { weights: 4.022, layers: 36, heads: 8, size: 128, family: 'Qwen3' },
  'Llama 3.1 8B': { weights: 8.03, layers: 32, heads: 8, size: 128, family: 'Llama 3' },
  'Qwen3 8B': { weights: 8.19, layers: 36, heads: 8, size: 128, family: 'Qwen3' },
  'Qwen3 32B': { weights: 32.8, layers: 64, heads: 8, size: 128, family: 'Qwen3' },
  'Llama 3.3 70B': { weights: 70.6, layers: 80, heads: 8, size: 128, family: 'Llama 3' },
};
// GB/s, GB of memory, and trillions of bf16 operations a second without sparsity, where the maker says. A PC's memory varies.
export const DEVICES = {
  'PC, DDR4-3200': { speed: 51.2, memory: 32 }, 'PC, DDR5-5600': { speed: 89.6, memory: 64 }, 'Apple M3 Max, 40-core GPU': { speed: 400, memory: 128 },
  'RTX 4090': { speed: 1008, memory: 24, operations: 165.2 }, 'A100 80 GB': { speed: 2039, memory: 80, operations: 312 },
  'H100 SXM': { speed: 3350, memory: 80, operations: 989.4 }, 'H200': { speed: 4800, memory: 141, operations: 989.4 }, 'B200 (HGX)': { speed: 8000, memory: 180, operations: 2250 },
};
export const PRECISIONS_OF_WEIGHTS = { 'fp32, 4 bytes a weight': 4, 'bf16, 2 bytes': 2, '8-bit, 1 byte': 1, '4-bit, half a byte': 0.5 };

// The choices of one calculator are those of the next one, stored in this browser alone.
const calculator = (() => {
  const KEY = 'speclens-calculator';
  let chosen = {};
  try { chosen = { ...JSON.parse(localStorage.getItem(KEY)) }; } catch { /* nothing stored, or not ours */ }
  return { chosen, save() { try { localStorage.setItem(KEY, JSON.stringify(chosen)); } catch { /* not allowed here */ } } };
})();

// ``options``: [words, value, key]. ``kept``: under which name the key of the choice is kept.
function keptPicker(label, kept, options, first) {
  const index = key => options.findIndex(option => option[2] === key), known = index(calculator.chosen[kept]);
  const list = picker(label, options, known < 0 ? index(first) : known);
  list.row.addEventListener('input', event => { calculator.chosen[kept] = options[event.target.selectedIndex][2]; calculator.save(); });
  return list;
}

export const chosenModel = label => keptPicker(label, 'model', Object.entries(MODELS).map(([name, model]) => [name, model, name]), 'Llama 3.1 8B');
export const chosenWidth = (label, widths) => keptPicker(label, 'width', Object.entries(widths).map(([words, bytes]) => [words, bytes, bytes]), 2);
const deviceWords = (name, { memory, speed }) => `${name}: ${memory ? `${memory} GB at ` : ''}${Number(short(speed)).toLocaleString('en')} GB/s`;
export const chosenDevice = (label, devices = DEVICES) => keptPicker(label, 'device', Object.entries(devices).map(([name, device]) => [deviceWords(name, device), device, name]), 'RTX 4090');

// GB of a key and a value of 16 bits for every token, layer and key-value head.
export const cacheOf = (model, tokens) => (model ? 2 * model.layers * model.heads * model.size * 2 * tokens / 1e9 : 0);
