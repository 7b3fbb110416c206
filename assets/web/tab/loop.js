// Runs speculative decoding: draft, verify, accept, commit, yield. The loop of engine/decoding/loop.py, for
// chains; with no drafts it is plain decoding.
import { makeDraftLength } from './draft_length.js';
import { makeNgram } from './ngram.js';
import { ACCEPTING, CLOSING, makeUniforms } from './random_streams.js';
import { verifyChain } from './rejection.js';
import { makeDetokenizer } from './tokens.js';
import { finishedEvent, makeRecorder, roundOf } from './trace_recorder.js';
import { warp } from './warping.js';

const MAX_GAMMA = 32;
const SPARE = MAX_GAMMA + 2; // places of the cache beside prompt and answer
const NOTHING = { tokens: [], keys: [] };
const CHUNK = 64; // tokens of a prompt that are read before Stop is looked at again

/** How far a row's largest logit is above the second: small where two processors may choose differently.
 * @param {Float32Array} row */
function gapOf(row) {
  let first = -Infinity,
    second = -Infinity;
  for (let i = 0; i < row.length; i++) {
    if (row[i] > first) [first, second] = [row[i], first];
    else if (row[i] > second) second = row[i];
  }
  return Math.fround(first - second);
}

/** Whether a row gives probabilities: NaN and infinity give none, a word with -infinity only has no chance.
 * @param {Float32Array} row */
function isFiniteRow(row) {
  let largest = -Infinity;
  for (let i = 0; i < row.length; i++) {
    if (!(row[i] < Infinity)) return false;
    largest = Math.max(largest, row[i]);
  }
  return largest > -Infinity;
}

// Yields the rounds of a run and, last, its end. ``model.pass(ids, start, wanted)``: the target's logits after the last
// ``wanted`` of ids whose places begin at ``start``; ``costs``: what γ = auto needs; ``isCancelled()`` is
// awaited once a round; ``now()``: seconds.
export async function* decode(run) {
  const { config, prompt, model, tokenizer, eos, control, isCancelled, now } = run;
  const { sampling, gamma, seed, max_new_tokens: most, trace_top: top } = config;
  const greedy = sampling.temperature === 0;
  const uniform = makeUniforms(seed);
  const text = makeDetokenizer(tokenizer);
  const recorder = makeRecorder(tokenizer, greedy, top);
  const capacity = Math.min(prompt.length + most + SPARE, Math.max(model.context, prompt.length + most));
  const committed = [...prompt];
  const zero = now();
  const clock = () => now() - zero;
  let reason = null;
  let output = '';
  let first = null;
  let last = null;
  const look =
    config.method === 'ngram' ? makeNgram(tokenizer.templateLength(config.prompt), eos, control) : () => NOTHING;
  const draftLength = makeDraftLength(gamma, run.costs);

  async function poll() {
    if (!reason && (await isCancelled())) reason = 'cancelled';
    return reason;
  }

  model.reset(capacity);
  for (let at = 0; at < prompt.length - 1 && !(await poll()); at += CHUNK)
    await model.pass(prompt.slice(at, Math.min(at + CHUNK, prompt.length - 1)), at, 1);
  const prefill = clock();

  function append(id) {
    const piece = text.push(id);
    committed.push(id);
    output += piece;
    if (eos.has(id)) reason = 'eos';
    else if (committed.length - prompt.length >= most) reason = 'length';
    return piece;
  }

  async function round(index) {
    const start = clock(),
      base = committed.length - 1,
      position = committed.length - prompt.length;
    // 1 draft
    const room = Math.min(most - position - 1, MAX_GAMMA, capacity - base - 2),
      { tokens: copied, keys } = position ? look(committed, MAX_GAMMA) : NOTHING, // the first token waits for no draft
      drafts = room < 1 || !keys.length ? [] : copied.slice(0, draftLength.choose(keys, room));
    const drafted = clock();
    // 2 verify: one pass over the pending token and the drafts
    const logits = await model.pass([committed[base], ...drafts], base, drafts.length + 1);
    if (!logits.every(isFiniteRow)) throw new Error('The model’s numbers are not finite.');
    const verified = clock();
    // 3 accept
    const u = drafts.map((_, i) => uniform(ACCEPTING, position + i)),
      uClosing = logits.map((_, i) => uniform(CLOSING, position + i)),
      gaps = greedy ? logits.map(gapOf) : [],
      p = logits.map(row => warp(row, sampling)),
      verdict = verifyChain(p, drafts, u, uClosing);
    const accepted = clock();
    // 4 commit
    draftLength.observe(
      keys,
      drafts.slice(0, verdict.tested).map((_, i) => i < verdict.last),
    );
    const draftTexts = text.peek(drafts);
    const texts = [];
    for (const id of [...drafts.slice(0, verdict.last), verdict.closing]) if (!reason) texts.push(append(id));
    const tail = (await poll()) ? text.tail() : '';
    output += tail;
    // 5 yield
    const tokens = recorder.tokensOf({ drafts, draftTexts, texts, tail, verdict, p, gaps, u, uClosing, position });
    const end = clock(),
      timings = {
        draft: drafted - start,
        verify: verified - drafted,
        accept: accepted - verified,
        host: end - accepted,
      };
    return roundOf(index, drafts.length, tokens, base, timings, start, end);
  }

  for (let index = 0; !reason; index++) {
    last = await round(index);
    first ??= last;
    yield last;
  }
  yield finishedEvent(reason, output, prefill, first, last, clock());
}
