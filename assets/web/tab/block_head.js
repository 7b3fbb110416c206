// Drafts with a block head, all guesses of a round from one pass, as engine/drafters/block.py does with a fixed γ:
// masked slots follow the last token that the target has read, and each guess is drawn from its own row.
import { expandAll, expandRow } from './gguf_tensors.js';
import { loadModel } from './pass.js';
import { DRAFTING } from './random_streams.js';
import { bestOf, draw, warp } from './warping.js';

const LONGEST_CATCH_UP = 8; // tokens that are read in the pass of a draft; more are read before it
const CHUNK = 64;

/** ``words``: the target's id of each word that it can guess; ``mask``: the tensor that masked slots read in place of
 * the target's states, ``maskToken``: and of a token; ``slots``: the most guesses of a pass; ``reads``: the target's
 * layers.
 * @typedef {import('./pass.js').Sizes & { tensors: Record<string, import('./gguf_tensors.js').Place>, recipe: string[][],
 *   bytes: number, words: number[], mask: string, maskToken: number, slots: number, reads: number[] }} HeadFacts */

/** @param {any} ort
 * @param {Uint8Array} graph
 * @param {ArrayBuffer} file the head's own weights
 * @param {HeadFacts} facts
 * @param {(ids: number[]) => Float32Array} embed the target's rows of words */
export async function loadBlockHead(ort, graph, file, facts, embed) {
  const view = new DataView(file),
    own = facts.recipe.filter(([name]) => name in facts.tensors),
    weights = new Float32Array(facts.bytes / 4);
  const rows = embed(facts.words); // its output layer, which comes last
  weights.set(expandAll(view, facts.tensors, own, facts.bytes - rows.byteLength));
  weights.set(rows, weights.length - rows.length);
  const mask = new Float32Array(facts.tensors[facts.mask].shape.at(-1));
  expandRow(view, facts.tensors[facts.mask], 0, mask, 0);
  return { facts, mask, model: await loadModel(ort, graph, weights, facts, embed) };
}

/** Returns what reads the prompt, the key of each guess (its place in the block), and ``propose(committed, most,
 * position)``: the drafts, and the rows q that they were drawn from, null for greedy ones.
 * @param {{ facts: HeadFacts, mask: Float32Array, model: any }} head
 * @param {{ statesOf: (start: number, end: number) => Float32Array }} target
 * @param {number} vocabulary words of the target
 * @param {import('./warping.js').Sampling} sampling
 * @param {(stream: number, place: number) => number} uniform */
export function makeBlock({ facts, mask, model }, target, vocabulary, sampling, uniform) {
  let length = 0; // places whose keys are cached

  /** @param {number} capacity */
  const reset = capacity => model.reset(Math.min(capacity, facts.context));

  /** Place t reads the target's states of token t and the embedding of token t + 1.
   * @param {number[]} committed @param {number} end */
  async function read(committed, end) {
    for (; length < end; length = Math.min(length + CHUNK, end)) {
      const to = Math.min(length + CHUNK, end);
      await model.pass(committed.slice(length + 1, to + 1), length, 1, target.statesOf(length, to));
    }
  }

  /** One row of the head's words becomes a draft, and a row of the target's words.
   * @param {Float32Array} row @param {number} u */
  function sample(row, u) {
    if (!sampling.temperature) return { id: facts.words[bestOf(row)], q: null };
    const own = warp(row, sampling),
      q = new Float32Array(vocabulary);
    for (const [i, word] of facts.words.entries()) q[word] = own[i];
    return { id: facts.words[draw(own, u)], q };
  }

  /** @param {number[]} committed */
  const keysOf = committed => (committed.length < 2 ? [] : Array.from({ length: facts.slots }, (_, i) => i));

  /** @param {number[]} committed @param {number} most @param {number} position */
  async function propose(committed, most, position) {
    const known = committed.length - 1,
      count = Math.min(most, facts.slots);
    if (known - length > LONGEST_CATCH_UP) await read(committed, known - 1);
    const start = Math.min(length, known - 1),
      masks = Array(count - 1).fill(facts.maskToken),
      features = new Float32Array((known - start + masks.length) * mask.length);
    features.set(target.statesOf(start, known));
    for (const i of masks.keys()) features.set(mask, (known - start + i) * mask.length);
    const rows = await model.pass([...committed.slice(start + 1), ...masks], start, count, features);
    length = known; // the masked slots are written again by the next pass
    const end = rows.findIndex(row => !row.every(Number.isFinite));
    const guesses = (end < 0 ? rows : rows.slice(0, end)).map((row, i) =>
      sample(row, uniform(DRAFTING + 4 * i, position + i)),
    );
    return {
      drafts: guesses.map(({ id }) => id),
      q: sampling.temperature ? guesses.map(({ q }) => q) : null,
      steps: 1,
    };
  }
  return { reset, read, keysOf, propose };
}
