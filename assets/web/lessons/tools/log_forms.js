// Finds acceptance figures in what an engine prints or serves, in the forms of assets/data/log_forms.json, as
// engine/tools/servers/log_forms.py does. A row is {accepted, drafted, rounds, gamma, reached, kind}; null: not told.

import DATA from '../../../data/log_forms.json' with { type: 'json' };

const NUMBER = DATA.number; // the first 15 digits of a longer one, so that each is finite
const numbersIn = text => (text?.match(new RegExp(NUMBER, 'g')) ?? []).map(Number);
export const sumOf = values => values.reduce((sum, value) => sum + value, 0);

// Derives the figures that a form does not name from those that it does.
function derive(entry, figures, reached = [], kind = '') {
  const { length = null, tokens = null } = figures,
    ends = entry.ends_early ?? false;
  let { accepted = null, drafted = null, rounds = null } = figures;
  let gamma = Math.round(figures.gamma ?? 0) || (ends ? 0 : reached.length) || equalDrafts(drafted, rounds);
  if (accepted === null && tokens !== null) accepted = Math.max(0, tokens - 1 - (rounds ?? 0));
  else if (accepted === null && length !== null) [accepted, rounds] = [Math.max(0, length - 1), 1];
  else if (length > 1 && accepted) rounds = accepted / (length - 1);
  // Every pass after the prompt's own gave one token beside the accepted ones, also one without a draft.
  else if (accepted !== null && tokens !== null) rounds = Math.max(0, tokens - 1 - accepted) || null;
  if (figures.rejected !== undefined) drafted = accepted + figures.rejected;
  if (entry.is_average && drafted && rounds) gamma = Math.round(drafted / rounds);
  const places = ends && gamma && reached.length ? Array.from({ length: gamma }, (_, i) => reached[i] ?? 0) : reached;
  return { accepted, drafted, rounds, gamma: gamma || null, reached: places, kind };
}

// Drafts a round, where every round had as many.
const equalDrafts = (drafted, rounds) => (rounds && drafted && drafted % rounds === 0 ? drafted / rounds : null);

// ── lines of a log ──

function readLines(text, entry) {
  const rows = new Map();
  const last = entry.totals_of ?? 'accepted';
  for (const [, ...groups] of text.matchAll(new RegExp(entry.line, 'g'))) {
    const line = groups.pop(),
      [kind] = groups;
    const found = Object.entries(entry.numbers).map(([name, words]) => [
      name,
      new RegExp(`${words} *(${NUMBER})`).exec(line)?.[1],
    ]);
    const figures = Object.fromEntries(found.filter(([, number]) => number).map(([name, number]) => [name, +number]));
    let key = String(rows.size);
    let row = derive(entry, {});
    if (['accepted', 'drafted', last].every(name => name in figures || name === 'kind')) {
      row = derive(entry, figures, entry.reached ? numbersIn(new RegExp(entry.reached).exec(line)?.[1]) : [], kind);
      if (entry.totals_of) key = `${{ kind, ...figures }[last]}`;
    }
    if (row.drafted || !rows.has(key)) rows.set(key, row);
  }
  return [...rows.values()];
}

const middle = values => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
// How far the values are from one whole number.
const distance = values => Math.max(0, ...values.map(value => Math.abs(value - Math.round(middle(values)))));

// Averages over the rounds since the line before, so lines count alike. The rate is accepted ÷ drafted in newer
// versions; in older ones both counts include the closing token. The one that fits whole γ better is taken. Both are
// rounded, so a line that fits the usual γ has it.
function readAverages(text, entry) {
  const pattern = new RegExp(entry.averages.replaceAll('NUMBER', NUMBER), 'g');
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
    return {
      accepted: Math.max(0, length - 1),
      drafted: gamma,
      rounds: 1,
      gamma: gamma || null,
      reached: [],
      kind: '',
    };
  });
}

// ── /metrics ──

// The counts of each model and engine on /metrics.
function readMetrics(text, entry) {
  const pattern = new RegExp(DATA.counter.replace('PREFIX', entry.prefix).replace('NUMBER', NUMBER), 'gm');
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
      return derive(entry, { rounds: drafts, drafted, accepted }, reached);
    });
}

// ── answers ──

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
    stream += Number(line === 'data: [DONE]');
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
function readAnswers(text, entry) {
  const names = Object.values(entry.keys);
  const last = new Map(),
    totals = new Map();
  for (const [id, each] of objectsOf(text)) {
    const counts = countsOf(each, names);
    for (const name of entry.total ?? []) if (countsOf(each, [name])) totals.set(id ?? each, each[name]);
    if (counts) last.set(id ?? each, [counts, each]);
  }
  const columns = names.map(name => [...text.matchAll(new RegExp(`["']${name}["']: *(${NUMBER})`, 'g'))].at(-1)?.[1]);
  if (!last.size && !columns.includes(undefined)) last.set(0, [columns.map(Number), {}]);
  return [...last].map(([answer, [counts, more]]) => {
    const figures = Object.fromEntries(Object.keys(entry.keys).map((role, i) => [role, counts[i]]));
    if (totals.has(answer)) figures.tokens = totals.get(answer);
    return derive(entry, figures, histogram(more[entry.histogram]));
  });
}

// The share of rounds that accepted each place, from how many rounds accepted 0, 1, 2 … drafts.
function histogram(rounds) {
  if (!Array.isArray(rounds) || !rounds.every(n => typeof n === 'number' && n >= 0)) return [];
  const all = sumOf(rounds);
  return all ? rounds.slice(1).map((_, i) => sumOf(rounds.slice(i + 1)) / all) : [];
}

const READERS = { line: readLines, averages: readAverages, prefix: readMetrics, keys: readAnswers };

// Sentences on what else to read, for the signs in a text that tells nothing of drafts.
export const sentencesOfSilent = text =>
  DATA.silent.filter(({ sign }) => new RegExp(sign).test(text)).map(({ sentence }) => sentence);

// Each form: {engine, name, source, rowsOf: a reader from a text to rows}.
export const FORMS = DATA.forms.map(entry => {
  const [, reader] = Object.entries(READERS).find(([key]) => key in entry);
  return { ...entry, rowsOf: text => reader(text, entry) };
});
