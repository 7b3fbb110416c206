// Runs the engine in a worker, so that the page never freezes: loads once, then decodes what the page asks for. The
// site's build puts the runtime before this module, as ``globalThis.ort``.
import { expandAll, expandRow } from './gguf_tensors.js';
import { decode } from './loop.js';
import { loadModel } from './pass.js';
import { makeTokenizer } from './tokens.js';
import { startedEvent } from './trace_recorder.js';
import { getFile, isStored, Refusal, remove } from './weights.js';

const MOST_THREADS = 4;
const SECOND = 1000;
const GZIP = [0x1f, 0x8b], // how such a file begins
  HTML = 0x3c; // <
let about = null,
  engine = null,
  stopped = false;

const post = message => globalThis.postMessage(message);
const now = () => performance.now() / SECOND;

// A turn of the event loop, in which a message about Stop arrives. A timer would wait for four milliseconds.
const channel = new MessageChannel();
function isCancelled() {
  return new Promise(resolve => {
    channel.port1.onmessage = () => resolve(stopped);
    channel.port2.postMessage(null);
  });
}

// A host may send a .gz file as it is, or as an encoding, which the browser undoes by itself.
/** @param {string} name */
async function unpack(name) {
  const response = await fetch(new URL(name, globalThis.location.href)).catch(() => null);
  if (!response) throw new Refusal(`${name} could not be reached. Check the network and press Run again.`);
  if (!response.ok) throw new Refusal(`Part of the site is missing: ${name}.`);
  try {
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (bytes[0] === HTML) throw new Refusal(`The host sends a page in place of ${name}. Copy the whole site again.`);
    if (bytes[0] !== GZIP[0] || bytes[1] !== GZIP[1]) return bytes.buffer;
    return await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal(`${name} arrived damaged. Press Run again.`);
  }
}

// Threads need a page that the host isolates; with two cores they would only compete with the browser.
function threads() {
  const cores = navigator.hardwareConcurrency ?? 1;
  return globalThis.crossOriginIsolated && cores > 2 ? Math.min(MOST_THREADS, cores - 1) : 1;
}

const say = (words, share) => post({ type: 'progress', words, share });

async function describe() {
  say('Getting the engine', null);
  const facts = JSON.parse(new TextDecoder().decode(await unpack('model.json.gz')));
  return { facts, tokenizer: makeTokenizer(facts.tokenizer) };
}

async function load(facts, { address }) {
  const graph = new Uint8Array(await unpack('graph.onnx.gz'));
  const { ort } = /** @type {any} */ (globalThis);
  Object.assign(ort.env.wasm, { numThreads: threads(), wasmBinary: await unpack('ort.wasm.gz') });
  const { size, sha256 } = facts,
    { bytes, note } = await getFile({ address, size, sha256 }, share => say('Downloading the model', share));
  say('Preparing the model', null);
  const { tensors, recipe, embedding, width } = facts.graph;
  const file = new DataView(bytes); // it stays, because rows of the embedding are expanded when they are needed
  function embed(ids) {
    const rows = new Float32Array(ids.length * width);
    for (const [i, id] of ids.entries()) expandRow(file, tensors[embedding], id, rows, i * width);
    return rows;
  }
  const weights = expandAll(file, tensors, recipe, facts.graph.bytes),
    model = await loadModel(ort, graph, weights, facts.graph, embed),
    count = ort.env.wasm.numThreads;
  return { model, note, device: `browser tab, WASM, ${count} thread${count > 1 ? 's' : ''}` };
}

// ``lanes``: [name, config] of each run, in order. Each event goes to the page with the name of its lane.
async function run({ lanes, source }) {
  stopped = false;
  about ??= await describe();
  const { facts, tokenizer } = about;
  const typed = lanes[0][1].prompt, // of all lanes
    prompt = tokenizer.encodePrompt(typed),
    { isRefusal, sentence } = tokenizer.unwritten(typed);
  if (isRefusal) throw new Refusal(sentence);
  if (prompt.length > facts.promptTokens)
    throw new Refusal(`The prompt has ${prompt.length} tokens; up to ${facts.promptTokens} fit here. Shorten it.`);
  engine ??= await load(facts, source);
  const { model, device, note } = engine,
    eos = new Set(facts.tokenizer.eos),
    control = new Set([...facts.tokenizer.marks, ...facts.tokenizer.eos]);
  for (const [lane, config] of lanes) {
    const begin = startedEvent(facts, config, prompt, tokenizer.nameOf, device, sentence ? [sentence] : []);
    post({ type: 'event', lane, kind: 'started', event: begin });
    const run = { config, prompt, model, tokenizer, eos, control, costs: facts.costs, isCancelled, now };
    for await (const event of decode(run))
      post({ type: 'event', lane, kind: 'reason' in event ? 'finished' : 'round', event });
    if (stopped) break;
  }
  post({ type: 'over', note });
}

const ANSWERS = {
  run,
  stop: () => {
    stopped = true;
  },
  async stored({ sha256 }) {
    post({ type: 'stored', isStored: await isStored(sha256) });
  },
  async remove() {
    await remove();
    post({ type: 'stored', isStored: false });
  },
};

globalThis.onmessage = async ({ data }) => {
  try {
    await ANSWERS[data.type](data);
  } catch (error) {
    const isRefusal = error instanceof Refusal,
      words = isRefusal ? error.message : `The engine failed: ${String(error).slice(0, 300)}`;
    post({ type: 'failed', words, isRefusal });
  }
};
