// Reads acceptance figures from the log of another engine: α by position, τ, the best γ for given costs, and advice.

import { make } from '../lib/dom.js';
import { percent } from '../lib/format.js';
import { expectedTokens } from '../lib/speedup_model.js';
import { figure, makeResult, meter, short, slider } from './widgets.js';

const LONGEST_LOG = 1_000_000; // characters; of a longer paste only the end is read
const numbersOf = text => (text?.match(/\d+(?:\.\d+)?/g) ?? []).map(Number);
const allOf = (text, pattern) => [...text.matchAll(pattern)].map(match => match.groups);
const sumOf = (rows, value) => rows.reduce((sum, row) => sum + value(row), 0);

// Each reader gives null, or {engine, rows}: a row has the rounds it covers (undefined where the log does not say),
// accepted and drafted tokens, and the share of rounds that accepted each position where the log has it.
const LOG_READERS = [
  function vllm(text) {
    const lines = allOf(text, /SpecDecoding metrics:(?<line>[^\n]*)/g).map(({ line }) => ({
      length: numbersOf(/Mean acceptance length: *([\d.]+)/.exec(line)?.[1])[0],
      accepted: numbersOf(/Accepted: *(\d+) tokens/.exec(line)?.[1])[0],
      drafted: numbersOf(/Drafted: *(\d+) tokens/.exec(line)?.[1])[0],
      positions: numbersOf(/Per-position acceptance rate: *\[?((?:[\d.]+(?:, *)?)+)/.exec(line)?.[1]),
    }));
    return lines.length ? { engine: 'vLLM', rows: lines.map(row => ({ ...row, rounds: roundsOf(row) })) } : null;
  },
  function llamaCpp(text) {
    const requests = allOf(
      text,
      /draft acceptance(?: rate)? = *(?<rate>[\d.]+) \( *(?<accepted>\d+) accepted \/ *(?<drafted>\d+) generated\)(?<rest>[^\n]*)/g,
    );
    const totals = allOf(
      text,
      /#gen drafts = *(?<rounds>\d+),[^\n]*?#gen tokens = *(?<drafted>\d+), *#acc tokens = *(?<accepted>\d+)(?<rest>[^\n]*)/g,
    );
    const rows = (requests.length ? requests : totals.slice(-1)).map(({ accepted, drafted, rounds, rest }) => {
      const row = {
        accepted: Number(accepted),
        drafted: Number(drafted),
        length: numbersOf(/mean (?:acceptance length|len) = *([\d.]+)/.exec(rest)?.[1])[0],
        positions: numbersOf(/(?:per position|per pos|rate\/pos) = \(([^)]*)\)/.exec(rest)?.[1]),
      };
      return { ...row, rounds: rounds ? Number(rounds) : roundsOf(row) };
    });
    return rows.length ? { engine: 'llama.cpp', rows } : null;
  },
  function sglang(text, assumed) {
    const lines = allOf(text, /accept len: *(?<length>[\d.]+), *accept rate: *(?<rate>[\d.]+)/g).map(
      ({ length, rate }) => [Number(length), Number(rate)],
    );
    if (!lines.length) return null;
    // The rate is accepted ÷ drafted in newer versions. In older ones both counts include the token that closes the round.
    // A line that accepted nothing says nothing about γ.
    const moving = lines.filter(([length, rate]) => rate > 0 && length > 1);
    const [older, newer] = [
      moving.map(([length, rate]) => length / rate - 1),
      moving.map(([length, rate]) => (length - 1) / rate),
    ];
    const gamma = moving.length ? Math.round(middle(spread(newer) < spread(older) ? newer : older)) : assumed;
    return {
      engine: 'SGLang',
      rows: lines.map(([length]) => ({ rounds: 1, accepted: Math.max(0, length - 1), drafted: gamma, positions: [] })),
    };
  },
  function tensorRt(text) {
    const average = name => numbersOf(new RegExp(`\\[${name}\\] AVERAGE *: *([\\d.]+)`).exec(text)?.[1])[0];
    const [drafted, accepted, length] = ['DT', 'ADT', 'AL'].map(average);
    return length === undefined
      ? null
      : {
          engine: 'TensorRT-LLM',
          rows: [
            {
              accepted,
              drafted,
              length,
              positions: [],
              rounds: roundsOf({ accepted, drafted, length, positions: [] }),
            },
          ],
        };
  },
];
const middle = row => [...row].sort((a, b) => a - b)[Math.floor(row.length / 2)];
// How far the values are from one whole number.
const spread = row => Math.max(...row.map(x => Math.abs(x - Math.round(middle(row)))));
// accepted ÷ (mean length − 1) where something was accepted, else drafted ÷ positions.
function roundsOf({ length, accepted, drafted, positions }) {
  if (length > 1 && accepted > 0) return accepted / (length - 1);
  return positions?.length ? drafted / positions.length : undefined;
}

// ``gamma``: used where the log does not name the rounds. Returns {problem} or {engine, tau, drafted, accepted, gamma,
// perDrafted, reached: share of rounds that accept each position, alphas: α at each position, exact: whether by position}.
export function readAcceptance(whole, gamma) {
  const text = whole.slice(-LONGEST_LOG),
    found = LOG_READERS.map(read => read(text, gamma)).find(Boolean);
  if (!text.trim()) return { problem: 'Paste a line of your engine’s log.' };
  if (!found)
    return {
      problem: 'No acceptance found. Paste the line that names it, from vLLM, SGLang, TensorRT-LLM or llama.cpp.',
    };
  const complete = found.rows.filter(row => row.drafted > 0 && row.accepted >= 0),
    last = complete.at(-1)?.positions.length;
  const rows = complete.filter(row => row.positions.length === last); // those of another draft length are not mixed in
  if (!rows.length) return { problem: 'The line ends before its numbers. Paste it whole.' };
  const drafted = sumOf(rows, row => row.drafted),
    accepted = sumOf(rows, row => row.accepted),
    told = rows.every(row => row.rounds);
  const rounds = told ? sumOf(rows, row => row.rounds) : drafted / gamma,
    drafts = Math.max(1, Math.round(drafted / rounds), ...rows.map(row => row.positions.length));
  const exact = rows.every(row => row.positions.length && row.rounds);
  const reached = exact
    ? Array.from({ length: drafts }, (_, i) => sumOf(rows, row => row.rounds * (row.positions[i] ?? 0)) / rounds)
    : geometric(1 + accepted / rounds, drafts);
  if (accepted > drafted || reached.some((share, i) => share > (reached[i - 1] ?? 1) + 1e-3))
    return { problem: 'These numbers cannot be: more is accepted than was offered.' };
  const alphas = reached.map((share, i) => (i && !reached[i - 1] ? null : share / (i ? reached[i - 1] : 1)));
  return {
    engine: found.engine,
    tau: 1 + accepted / rounds,
    rounds,
    drafted,
    accepted,
    gamma: drafts,
    perDrafted: accepted / drafted,
    reached,
    alphas,
    exact,
    told,
  };
}

// The shares of one α at every position that gives this τ.
function geometric(tau, gamma) {
  let low = 0,
    high = 1;
  for (let i = 0; i < 50; i++) {
    const alpha = (low + high) / 2;
    if (expectedTokens(alpha, gamma) < tau) low = alpha;
    else high = alpha;
  }
  return Array.from({ length: gamma }, (_, i) => high ** (i + 1));
}

// [speedup for γ = 0, 1, …], each position with its own α; beyond the known ones α is taken to remain the last.
export function speedupsOf({ reached }, c, slope, most) {
  const last =
    reached.length > 1 && reached[reached.length - 2]
      ? reached[reached.length - 1] / reached[reached.length - 2]
      : reached[0];
  let share = 1,
    tokens = 1;
  return [
    1,
    ...Array.from({ length: most }, (_, i) => {
      share = reached[i] ?? share * last;
      tokens += share;
      return tokens / ((i + 1) * c + 1 + slope * (i + 1));
    }),
  ];
}

export function adviceFor({ alphas, gamma }, best, most) {
  if (alphas[0] < 0.3)
    return 'Few first drafts are accepted: check that the drafter, its chat template and the text fit this model.';
  if (best === 0) return 'At these costs no draft pays: turn drafting off for this text.';
  if (best < gamma) return `Draft ${best} instead of ${gamma}: the last drafts cost more than they bring.`;
  if (best > gamma)
    return `Try ${best}${best === most ? ' or more' : ''} instead of ${gamma}: one more draft would still pay.`;
  return `γ = ${gamma} is right for these costs. Now measure against plain decoding.`;
}

export function makeAcceptanceLog(settings, touched) {
  const MOST = 16,
    words = make('textarea', '', settings.text, { rows: 4, spellcheck: false });
  const field = make('label', 'sl-cut-field', [make('span', '', 'Lines of your engine’s log'), words]);
  const used = slider('γ in use, if the log does not say', { low: 1, high: MOST, step: 1, value: settings.gamma ?? 4 });
  const cost = slider('c, cost of one draft step', { low: 0, high: 1, step: 0.01, value: settings.c ?? 0.05 });
  const wide = slider('extra cost of each token scored', {
    low: 0,
    high: 1,
    step: 0.01,
    value: settings.slope ?? 0.05,
  });
  const result = makeResult(),
    advice = makeResult(),
    bars = make('div', ''),
    aside = make('p', 'sl-figure-note');

  function draw() {
    const found = readAcceptance(words.value, used.value);
    result.textContent =
      found.problem ??
      `${found.engine}: τ ${short(found.tau)}, α ${short(found.alphas[0])} for the first draft, ${percent(found.perDrafted)} of all drafts accepted.`;
    if (found.problem) {
      bars.replaceChildren();
      advice.textContent = aside.textContent = '';
      return;
    }
    const speedups = speedupsOf(found, cost.value, wide.value, MOST),
      best = speedups.indexOf(Math.max(...speedups));
    bars.replaceChildren(
      ...found.reached.slice(0, 8).map((share, i) => {
        const bar = meter('sl-meter-p'),
          alpha = found.alphas[i];
        bar.set(`position ${i + 1}`, share, `${share.toFixed(2)}, α ${alpha === null ? '–' : alpha.toFixed(2)}`);
        return bar.row;
      }),
    );
    advice.textContent = adviceFor(found, best, MOST);
    aside.textContent =
      `Best: γ = ${best}, ${short(speedups[best])} ×; γ = ${found.gamma} gives ${short(speedups[found.gamma] ?? 0)} ×. ` +
      `${found.exact ? 'A bar is the share of rounds that accept the position.' : 'The log has no positions, so one α is taken for all of them.'}` +
      `${found.told ? '' : ' It names no rounds, so your γ is used.'}${words.value.length > LONGEST_LOG ? ' Only the last million characters were read.' : ''}`;
    Object.assign(result.dataset, { tau: found.tau.toFixed(3), best });
  }
  return figure(
    'Paste your engine’s log',
    draw,
    touched,
    field,
    result,
    bars,
    advice,
    cost.row,
    wide.row,
    used.row,
    aside,
  );
}
