// Runs llama.cpp for llama_cpp.py, by the npm package node-llama-cpp, whose kernels are ready for every processor.
// Reads requests from its input and answers each with a line; seconds are those of this process.
//
//     node llama_cpp.mjs PACKAGE MODEL.gguf CONTEXT THREADS plain|lookup

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [folder, modelPath, contextSize, threads, kind] = process.argv.slice(2);
const { getLlama, InputLookupTokenPredictor } = await import(pathToFileURL(`${folder}/dist/index.js`).href);
const llama = await getLlama({ build: 'never', gpu: false, logLevel: 'error', maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
const context = await model.createContext({ contextSize: Number(contextSize), threads: Number(threads) });
const options = kind === 'lookup' ? { tokenPredictor: new InputLookupTokenPredictor() } : {};
const sequence = context.getSequence(options);
const seconds = start => (performance.now() - start) / 1000;

/** Writes greedy tokens after the prompt `ids`, up to `most` or one of `eos`: the tokens, and when each came. */
async function write({ ids, eos, most }) {
  await sequence.clearHistory();
  const [start, before, tokens, times] = [performance.now(), sequence.tokenPredictions.used, [], []];
  for await (const token of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
    tokens.push(token);
    times.push(seconds(start));
    if (tokens.length >= most || eos.includes(token)) break;
  }
  return { tokens, times, accepted: sequence.tokenPredictions.used - before };
}

/** Times a pass over `ids` after the first `kept` tokens; with `scored`, it also finds the likeliest token after each. */
async function pass({ kept, ids, scored }) {
  await sequence.eraseContextTokenRanges([{ start: kept, end: Number(contextSize) }]);
  const start = performance.now();
  if (scored) {
    await sequence.controlledEvaluate(ids.map(id => [id, { generateNext: { token: true, options: { temperature: 0 } } }]));
  } else {
    await sequence.evaluateWithoutGeneratingNewTokens(ids);
  }
  return { seconds: seconds(start) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  console.log(JSON.stringify(await (request.most ? write(request) : pass(request))));
}
process.exit(0); // the addon's threads would keep it alive
