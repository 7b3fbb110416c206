// Figures of model cards and of the makers' data sheets. Models: the family that shares a tokenizer; billions of weights;
// layers; key-value heads and their size, for the cache. Devices: GB/s, GB of memory, and trillions of bf16 operations a
// second without sparsity, where the maker says. A PC's memory varies.
export const MODELS = {
  'SmolLM2 135M': { family: 'SmolLM2', weights: 0.135, layers: 30, heads: 3, size: 64 },
  'Qwen3 0.6B': { family: 'Qwen3', weights: 0.596, layers: 28, heads: 8, size: 128 },
  'Llama 3.2 1B': { family: 'Llama 3', weights: 1.236, layers: 16, heads: 8, size: 64 },
  'Qwen3 4B': { family: 'Qwen3', weights: 4.022, layers: 36, heads: 8, size: 128 },
  'Llama 3.1 8B': { family: 'Llama 3', weights: 8.03, layers: 32, heads: 8, size: 128 },
  'Qwen3 8B': { family: 'Qwen3', weights: 8.19, layers: 36, heads: 8, size: 128 },
  'Qwen3 32B': { family: 'Qwen3', weights: 32.8, layers: 64, heads: 8, size: 128 },
  'Llama 3.3 70B': { family: 'Llama 3', weights: 70.6, layers: 80, heads: 8, size: 128 },
};
export const DEVICES = {
  'PC, DDR4-3200': { speed: 51.2, memory: 32 },
  'PC, DDR5-5600': { speed: 89.6, memory: 64 },
  'Apple M3 Max, 40-core GPU': { speed: 400, memory: 128 },
  'RTX 4090': { speed: 1008, memory: 24, operations: 165.2 },
  'A100 80 GB': { speed: 2039, memory: 80, operations: 312 },
  'H100 SXM': { speed: 3350, memory: 80, operations: 989.4 },
  H200: { speed: 4800, memory: 141, operations: 989.4 },
  'B200 (HGX)': { speed: 8000, memory: 180, operations: 2250 },
};
