// Finds acceptance figures in the lines that an engine logs or serves on /metrics. Each form has a
// reader from a text to rows, as engine/trace/log_forms.py has it. A row is {accepted, drafted, rounds,
// gamma, reached, kind}; null: not told.

export const NUMBER = '\\d{1,15}(?:\\.\\d{1,15})?'; // the first 15 digits of a longer one, so that each is finite
const numbersOf = text => (text?.match(new RegExp(NUMBER, 'g')) ?? []).map(Number);
const numberAt = (text, name) => numbersOf(new RegExp(`${name} *(${NUMBER})`).exec(text)?.[1])[0] ?? null;
const numbersAt = (text, pattern) => numbersOf(pattern.exec(text)?.[1]);
export const row = (accepted, drafted = null, rounds = null, gamma = null, reached = [], kind = '') => ({
  accepted,
  drafted,
  rounds,
  gamma: gamma || null,
  reached,
  kind,
});
// Drafts a round, where every round had as many.
export const whole = (drafted, rounds) => (rounds && drafted && drafted % rounds === 0 ? drafted / rounds : null);

// Rounds from a mean length, or where nothing was accepted from a draft's places.
function roundsOf(length, accepted, drafted, places) {
  if (length > 1 && accepted) return accepted / (length - 1);
  return drafted && places ? drafted / places : null;
}

// vLLM and LMDeploy share the words; LMDeploy has a rate before the mean length.
const specDecoding = isLmdeploy => text =>
  [...text.matchAll(/SpecDecoding metrics:([^\n]*)/g)]
    .map(match => match[1])
    .filter(line => /^ Draft acceptance rate: [^,]*, Mean/.test(line) === isLmdeploy)
    .map(line => {
      const [length, accepted, drafted] = ['Mean acceptance length:', 'Accepted:', 'Drafted:'].map(name =>
        numberAt(line, name),
      );
      const places = numbersAt(line, /Per-position acceptance rate: *\[?([\d., ]+)/);
      const rounds = roundsOf(length, accepted, drafted, places.length);
      return row(drafted === null ? null : accepted, drafted, rounds, places.length, places);
    });

// V0 counts from its start on, so the last line of each γ has all; where the efficiency is nan, from the line before.
function vllmV0(text) {
  const each = [],
    last = new Map();
  for (const [, line] of text.matchAll(/Speculative metrics:([^\n]*)/g)) {
    const counts = ['speculative', 'accepted', 'draft'].map(name => numberAt(line, `${name} tokens:`)),
      [gamma, accepted, drafted] = counts;
    if (counts.includes(null)) continue;
    const found = row(accepted, drafted, gamma ? drafted / gamma : null, Math.round(gamma));
    if (/efficiency: *nan/.test(line)) each.push(found);
    else last.set(gamma, found);
  }
  return [...each, ...last.values()];
}

// One line a request; since July 2026 the places are on the next line.
function llamaRequests(text) {
  const pattern =
    /draft acceptance(?: rate)? = *[\d.]+ \( *(\d{1,15}) accepted \/ *(\d{1,15}) generated\)([^\n]*(?:\n[^\n]*acc per pos = \([^\n]*)?)/g;
  return [...text.matchAll(pattern)].map(([, a, d, more]) => {
    const [accepted, drafted, length] = [+a, +d, numberAt(more, 'mean (?:acceptance length|len) =')];
    const places = numbersAt(more, /(?:per position|per pos) = \(([\d., ]+)/);
    return row(accepted, drafted, roundsOf(length, accepted, drafted, 0), places.length, places);
  });
}

// Totals since the start, so the last line of each drafter counts. Rounds are the third of its calls: a draft is made
// more often than it is used where there are several drafters.
function llamaTotals(text) {
  const last = new Map();
  for (const [, kind, line] of text.matchAll(/statistics +(\S+?):([^\n]*)/g)) {
    const counts = ['#gen drafts =', '#gen tokens =', '#acc tokens ='].map(name => numberAt(line, name)),
      [drafts, drafted, accepted] = counts;
    if (counts.includes(null)) continue;
    const rounds = numberAt(line, '#calls\\(b,g,a\\) = *\\d+ +\\d+ ') ?? drafts,
      places = numbersAt(line, /rate\/pos = \(([\d., ]+)/);
    last.set(kind, row(accepted, drafted, rounds, places.length || whole(drafted, rounds), places, kind));
  }
  return [...last.values()];
}

const middle = values => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
// How far the values are from one whole number.
const distance = values => Math.max(0, ...values.map(value => Math.abs(value - Math.round(middle(values)))));

// Averages over the rounds since the line before, so lines count alike. The rate is accepted ÷ drafted in newer
// versions; in older ones both counts include the closing token. The one that fits whole γ better is taken. Both are
// rounded, so a line that fits the usual γ has it.
function sglangLog(text) {
  const pattern = new RegExp(`accept len: *(${NUMBER})(?:, *accept rate: *(${NUMBER}))?`, 'g');
  const lines = [...text.matchAll(pattern)].map(([, length, rate]) => [Number(length), Number(rate ?? 0)]);
  const moving = lines.filter(([length, rate]) => rate > 0 && length > 1);
  const newer = moving.map(([length, rate]) => (length - 1) / rate),
    older = moving.map(([length, rate]) => length / rate - 1);
  const offset = distance(newer) < distance(older) ? 1 : 0,
    usual = moving.length ? Math.round(middle(offset ? newer : older)) : null;
  return lines.map(([length, rate]) => {
    let gamma = usual;
    if (rate > 0 && length > 1) {
      const most = (length + 0.005 - offset) / Math.max(1e-9, rate - 0.005) - (1 - offset);
      const least = (length - 0.005 - offset) / (rate + 0.005) - (1 - offset);
      if (usual < least || usual > most) gamma = Math.round((length - offset) / rate - (1 - offset));
    }
    return row(Math.max(0, length - 1), gamma, 1, gamma);
  });
}

function tensorRtLog(text) {
  const [drafted, accepted, length] = ['DT', 'ADT', 'AL'].map(name => numberAt(text, `\\[${name}\\] AVERAGE *:`));
  if (length === null) return [];
  const rounds = roundsOf(length, accepted, drafted, 0);
  return [row(drafted === null ? null : accepted, drafted, rounds, rounds && Math.round(drafted / rounds))];
}

// The counts of each model and engine on /metrics.
const metrics = prefix => text => {
  const pattern = new RegExp(
    `^${prefix}:spec_decode_num_(drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)(?:_total)?(?:\\{([^}\\n]*)\\})? +(${NUMBER}(?:e\\+?0*\\d{1,2})?)(?=\\s|$)`,
    'gm',
  );
  const found = new Map();
  for (const [, name, labels, value] of text.matchAll(pattern)) {
    const pairs = Object.fromEntries([...(labels ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(match => match.slice(1)));
    const { position, ...own } = pairs,
      key = JSON.stringify(Object.entries(own).sort());
    const counts = found.get(key) ?? { places: [] };
    found.set(key, counts);
    if (position === undefined) counts[name] = Number(value);
    else if (/^\d+$/.test(position)) counts.places.push([Number(position), Number(value)]);
  }
  return [...found.values()]
    .filter(each => ['drafts', 'draft_tokens', 'accepted_tokens'].every(name => name in each))
    .map(({ drafts, draft_tokens: drafted, accepted_tokens: accepted, places }) => {
      const reached = drafts ? places.sort((a, b) => a[0] - b[0]).map(([, count]) => count / drafts) : [];
      return row(accepted, drafted, drafts, reached.length || whole(drafted, drafts), reached);
    });
};

export const LINE_FORMS = [
  ['vLLM', 'SpecDecoding metrics of its log (0.32)', 'log', specDecoding(false)],
  ['LMDeploy', 'SpecDecoding metrics of its log (August 2026)', 'log', specDecoding(true)],
  ['vLLM', 'Speculative metrics of its log (V0)', 'log', vllmV0],
  ['llama.cpp', 'draft acceptance of its log (0.5)', 'log', llamaRequests],
  ['llama.cpp', 'statistics of its log (0.5)', 'log', llamaTotals],
  ['SGLang', 'accept len of its log (0.5)', 'log', sglangLog],
  ['TensorRT-LLM', 'DT, ADT and AL of trtllm-bench', 'log', tensorRtLog],
  ['vLLM', 'counters of /metrics (0.32)', 'metrics', metrics('vllm')],
  ['llama.cpp', 'counters of /metrics (0.5)', 'metrics', metrics('llamacpp')],
  ['LMDeploy', 'counters of /metrics (August 2026)', 'metrics', metrics('lmdeploy')],
];
