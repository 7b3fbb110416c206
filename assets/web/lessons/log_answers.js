// Finds acceptance figures in answers of a server, JSON or a stream of it, as engine/trace/log_forms.py does.

import { NUMBER, row, whole } from './log_lines.js';

const parseJson = text => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

// Every JSON object of the text, each with what names its answer: an id, else the
// stream that it is part of, else nothing.
function objectsOf(text) {
  const all = parseJson(text);
  if (all !== undefined) return within(all, null, 0);
  let stream = 0;
  return text.split('\n').flatMap(untrimmed => {
    const line = untrimmed.trim(),
      body = line.replace(/^data:/, '').trim();
    stream += line === 'data: [DONE]';
    const value = /^[{[]/.test(body) ? parseJson(body) : undefined;
    return value === undefined ? [] : within(value, line === body ? null : `stream ${stream}`, 0);
  });
}

// The object and those within it, to a depth that answers have.
function within(value, answer, depth) {
  if (value === null || typeof value !== 'object') return [];
  const isList = Array.isArray(value),
    own = !isList && typeof value.id === 'string' ? value.id : answer;
  const inner = depth < 8 ? Object.values(value).flatMap(each => within(each, own, depth + 1)) : [];
  return isList ? inner : [[own, value], ...inner];
}

// The counts by these names; null where one is missing or none.
function countsOf(found, names) {
  const values = names.map(name => found[name]);
  return values.every(v => typeof v === 'number' && v >= 0 && v < 2 ** 53) ? values : null;
}

// Reads answers by the names of their counts. The counts of one answer grow, so its last ones are its totals. Any other
// text than JSON is searched for the names.
const answer = (names, make) => text => {
  const last = new Map();
  for (const [id, each] of objectsOf(text)) {
    const counts = countsOf(each, names);
    if (counts) last.set(id ?? last.size, [...counts, each]);
  }
  if (last.size) return [...last.values()].map(each => make(...each));
  const columns = names.map(name => [...text.matchAll(new RegExp(`["']${name}["']: *(${NUMBER})`, 'g'))].at(-1)?.[1]);
  return columns.includes(undefined) ? [] : [make(...columns.map(Number), {})];
};

// The share of rounds that accepted each place, from how many rounds accepted 0, 1, 2 … drafts.
function histogram(rounds) {
  if (!Array.isArray(rounds) || !rounds.every(n => typeof n === 'number' && n >= 0)) return [];
  const sum = counts => counts.reduce((total, n) => total + n, 0),
    all = sum(rounds);
  return all ? rounds.slice(1).map((_, i) => sum(rounds.slice(i + 1)) / all) : [];
}

function vllmAnswer(rounds, drafted, accepted, more) {
  const reached = histogram(more.acceptance_histogram);
  return row(accepted, drafted, rounds, reached.length || whole(drafted, rounds), reached);
}

const sglangAnswer = name => (rounds, drafted, accepted, more) => {
  const gamma = whole(drafted, rounds),
    reached = histogram(more[name]);
  const filled = gamma ? Array.from({ length: gamma }, (_, i) => reached[i] ?? 0) : reached;
  return row(accepted, drafted, rounds, gamma, reached.length ? filled : []);
};

// Rounds are not told. Every pass after the prompt's own gave one token beside the accepted ones, so that
// passes without a draft are among them.
function llamaAnswer(drafted, accepted, more) {
  const total = countsOf(more, ['predicted_n']);
  return row(accepted, drafted, total ? Math.max(0, total[0] - 1 - accepted) || null : null);
}

const counts = (rounds, drafted, accepted) => row(accepted, drafted, rounds, whole(drafted, rounds));

export const ANSWER_FORMS = [
  [
    'vLLM',
    'speculative_decoding of an answer (0.32)',
    'answer',
    answer(['num_spec_steps', 'num_draft_tokens', 'num_accepted_draft_tokens'], vllmAnswer),
  ],
  [
    'SGLang',
    'spec_tokens_details or meta_info of an answer (0.5.23)',
    'answer',
    answer(
      ['spec_verify_ct', 'spec_num_proposed_drafts', 'spec_num_correct_drafts'],
      sglangAnswer('spec_correct_drafts_histogram'),
    ),
  ],
  [
    'SGLang',
    'meta_info of an answer (0.5.9)',
    'answer',
    answer(['spec_verify_ct', 'spec_draft_token_num', 'spec_accept_token_num'], sglangAnswer('spec_accept_histogram')),
  ],
  [
    'SGLang',
    'meta_info of an answer (0.4)',
    'answer',
    answer(['spec_verify_ct', 'completion_tokens'], (rounds, tokens) =>
      row(Math.max(0, tokens - 1 - rounds), null, rounds),
    ),
  ],
  [
    'SGLang',
    'server_info',
    'answer',
    answer(['avg_spec_accept_length'], length => row(Math.max(0, length - 1), null, 1)),
  ],
  [
    'mlx-vlm',
    'timings of an answer (August 2026)',
    'answer',
    answer(['draft_rounds', 'draft_n', 'draft_n_accepted'], counts),
  ],
  ['llama.cpp', 'timings of an answer (0.5)', 'answer', answer(['draft_n', 'draft_n_accepted'], llamaAnswer)],
  [
    'TensorRT-LLM',
    'specDecodingStats of /metrics (1.4)',
    'answer',
    answer(['numRequestsWithDraftTokens', 'numDraftTokens', 'numAcceptedTokens'], counts),
  ],
  [
    'TensorRT-LLM',
    '/perf_metrics (1.4)',
    'answer',
    answer(['total_draft_tokens', 'total_accepted_draft_tokens'], (drafted, accepted) => row(accepted, drafted)),
  ],
  [
    'OpenAI’s API',
    'prediction_tokens of an answer’s usage',
    'answer',
    answer(['accepted_prediction_tokens', 'rejected_prediction_tokens'], (accepted, rejected) =>
      row(accepted, accepted + rejected),
    ),
  ],
];
