// Lists the models and devices of the calculators, from model cards and the makers' data sheets.

// billions of weights; layers; key-value heads and their size, for the cache
const MODELS = {
  'SmolLM2 135M': { weights: 0.135, layers: 30, heads: 3, size: 64, family: 'SmolLM2' },
  'Qwen3 0.6B': { weights: 0.596, layers: 28, heads: 8, size: 128, family: 'Qwen3' },
  'Llama 3.2 1B': { weights: 1.236, layers: 16, heads: 8, size: 64, family: 'Llama 3' },
  'Qwen3 4B': { weights: 4.022, layers: 36, heads: 8, size: 128, family: 'Qwen3' },
  'Llama 3.1 8B': { weights: 8.03, layers: 32, heads: 8, size: 128, family: 'Llama 3' },
  'Qwen3 8B': { weights: 8.19, layers: 36, heads: 8, size: 128, family: 'Qwen3' },
  'Qwen3 32B': { weights: 32.8, layers: 64, heads: 8, size: 128, family: 'Qwen3' },
  'Llama 3.3 70B': { weights: 70.6, layers: 80, heads: 8, size: 128, family: 'Llama 3' },
};
// GB/s and GB of memory. A PC's memory varies; these are common sizes.
const DEVICES = {
  'PC, DDR4-3200': { speed: 51.2, memory: 32 }, 'PC, DDR5-5600': { speed: 89.6, memory: 64 }, 'Apple M3 Max, 40-core GPU': { speed: 400, memory: 128 },
  'RTX 4090': { speed: 1008, memory: 24 }, 'A100 80 GB': { speed: 2039, memory: 80 }, 'H100 SXM': { speed: 3350, memory: 80 }, 'H200': { speed: 4800, memory: 141 },
};
const PRECISIONS_OF_WEIGHTS = { 'fp32, 4 bytes a weight': 4, 'bf16, 2 bytes': 2, '8-bit, 1 byte': 1, '4-bit, half a byte': 0.5 };

// A list of such entries; ``chosen`` is a name.
const pickerOf = (label, entries, chosen) => picker(label, Object.entries(entries), Object.keys(entries).indexOf(chosen));
const deviceNames = () => Object.fromEntries(Object.entries(DEVICES).map(([name, device]) => [`${name}: ${device.memory} GB at ${device.speed.toLocaleString('en')} GB/s`, device]));
const chosenDevice = label => picker(label, Object.entries(deviceNames()), Object.keys(DEVICES).indexOf('RTX 4090'));

// GB of a key and a value of 16 bits for every token, layer and key-value head.
const cacheOf = (model, tokens) => (model ? 2 * model.layers * model.heads * model.size * 2 * tokens / 1e9 : 0);
