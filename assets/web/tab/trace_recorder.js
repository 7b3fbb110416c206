// Makes the events of a run, with the fields of engine/trace/events.py; a test compares the two.
import { topOf } from './warping.js';

/** @typedef {{ id: number, text: string, mass: number }} Candidate */

/** @param {{ nameOf: (id: number) => string, labelOf: (id: number, piece: string) => string | null }} tokenizer
 * @param {boolean} greedy rows have one candidate
 * @param {number} top candidates of each row otherwise */
export function makeRecorder({ nameOf, labelOf }, greedy, top) {
  /** @param {Candidate[]} candidates */
  const distribution = candidates => ({
    top: candidates,
    rest: Math.max(0, 1 - candidates.reduce((sum, { mass }) => sum + mass, 0)),
  });
  const certain = id => distribution([{ id, text: nameOf(id), mass: 1 }]);

  /** @param {Float32Array} row */
  function likeliest(row) {
    const { values, ids } = topOf(row, greedy ? 1 : top);
    return distribution(
      Array.from(ids, (id, i) => ({ id, text: nameOf(id), mass: values[i] })).filter(({ mass }) => mass > 0),
    );
  }

  /** What max(p − one-hot, 0) has as its likeliest, without making the row: p without the draft, divided by the mass
   * that this leaves.
   * @param {Float32Array} p @param {number} draft */
  function residualWithout(p, draft) {
    if (greedy) return likeliest(p);
    const { values, ids } = topOf(p, top + 1);
    let total = 0;
    for (let i = 0; i < p.length; i++) if (i !== draft) total += p[i];
    const sum = Math.fround(total);
    if (!(sum > 0)) return likeliest(p);
    const others = Array.from(ids, (id, i) => ({ id, text: nameOf(id), mass: Math.fround(values[i] / sum) }));
    return distribution(others.filter(({ id, mass }) => id !== draft && mass > 0).slice(0, top));
  }

  const token = (id, text, status, position, depth, numbers) => ({
    id,
    text,
    status,
    position,
    depth,
    label: labelOf(id, text),
    p: null,
    q: null,
    u: null,
    accept: null,
    gap: null,
    p_top: null,
    q_top: null,
    residual: null,
    running: null,
    h: null,
    expected: null,
    threshold: null,
    removed: null,
    from_grammar: false,
    ...numbers,
  });

  /** The status of each draft, and of the closing token if the text reaches it.
   * @param {number} N @param {{ last: number, tested: number }} verdict
   * @param {number} emitted tokens up to the text's end @returns {string[]} */
  function classify(N, { last, tested }, emitted) {
    /** @type {string[]} */
    const statuses = Array.from({ length: N }, (_, i) =>
      i < last && i < emitted ? 'accepted' : i === last && i < tested && i < emitted ? 'rejected' : 'discarded',
    );
    if (last < emitted) statuses.push(!N ? 'plain' : statuses[last] === 'rejected' ? 'resampled' : 'bonus');
    return statuses;
  }

  // ``round``: {drafts, draftTexts, texts, tail, verdict, p, gaps, u, uClosing, position}, as in the loop.
  function tokensOf({ drafts, draftTexts, texts, tail, verdict, p, gaps, u, uClosing, position }) {
    const N = drafts.length,
      statuses = classify(N, verdict, texts.length);
    const tokens = [];
    const lastEmitted = statuses.findLastIndex(status => status !== 'rejected' && status !== 'discarded');
    const { last, closing, accept } = verdict;
    for (const [i, status] of statuses.entries()) {
      const isDraft = i < N,
        id = isDraft ? drafts[i] : closing,
        row = isDraft ? i : last,
        refused = status === 'resampled' ? tokens[last] : null,
        piece = isDraft ? draftTexts[i] : texts.at(-1);
      const numbers = { p: p[row][id], u: isDraft ? (/accepted|rejected/.test(status) ? u[i] : null) : uClosing[last] };
      const gap = greedy && Number.isFinite(gaps[row]) ? gaps[row] : null;
      Object.assign(numbers, { gap, p_top: likeliest(p[row]) });
      if (isDraft) {
        Object.assign(numbers, { q: 1, accept: accept[i], q_top: certain(id) });
        if (accept[i] < 1) Object.assign(numbers, { residual: residualWithout(p[i], id) });
      } else if (refused) {
        const { q_top, residual } = refused;
        Object.assign(numbers, { q: Number(refused.id === id), q_top, residual });
      }
      const made = token(id, piece, status, position + row, row + 1, numbers);
      if (i === lastEmitted) made.text += tail;
      tokens.push(made);
    }
    return tokens;
  }
  return { tokensOf };
}

// The events around the rounds. ``facts``: the model's description.
export const startedEvent = (facts, config, prompt, nameOf, device, notes) => ({
  config,
  prompt: prompt.map(id => ({ id, text: nameOf(id), label: null })),
  pair: facts.pair,
  revision: facts.revision,
  weights: { target: facts.sha256 },
  device,
  dtype: 'fp32',
  versions: facts.versions,
  costs: null,
  at: new Date().toISOString().replace(/\.\d+Z$/, '+00:00'),
  prefix: [],
  translated: null,
  exit_layers: null,
  same_bits: null,
  notes,
  draft_dtype: '',
  server: null,
});

export const roundOf = (index, drafts, tokens, context, timings, start, end) => ({
  index,
  gamma: drafts,
  tokens,
  parents: Array.from({ length: drafts }, (_, i) => i),
  draft_steps: 0,
  context,
  timings,
  start,
  end,
  drafter: '',
  row_cost: null,
  rows: 1,
  forbidden: [],
  reading: 0, // a lookup reads no prompt
});

export const finishedEvent = (reason, text, prefill, first, last, seconds) => ({
  reason,
  text,
  prefill,
  ttft: first?.end ?? 0,
  decode_seconds: first ? last.end - first.start : 0,
  seconds: last?.end ?? seconds,
  peak_memory: null,
  extra: {},
  notes: [],
  kept_tokens: {}, // the tab keeps no prompts
});
