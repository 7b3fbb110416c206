// Reads acceptance figures from a log, /metrics or saved answers of an engine, as engine/tools/servers/log_reader.py does.

import { FORMS, sentencesOfSilent, sumOf } from './log_forms.js';

const LONGEST = 1_000_000; // characters; only the end of a longer text is read

// Returns {readings, unused}. A reading has the figures of one form, drafter and draft length, the longest draft last:
// {engine, form, rows, accepted, rounds, drafted, gamma, reached}; null: not told.
// ``unused``: a sentence for each thing left out.
export function readLog(whole) {
  const text = whole.slice(-LONGEST),
    unused = text.length < whole.length ? [`Only the last ${LONGEST.toLocaleString('en')} characters were read.`] : [];
  const found = FORMS.map(form => ({ ...form, rows: form.rowsOf(text) })).filter(form => form.rows.length);
  const first = found.find(form => form.rows.some(row => !faultOf(row)));
  for (const form of found) {
    if (form === first || !first) unused.push(...faultsOf(form));
    else if (form.source !== 'answer' || first.source !== 'answer')
      unused.push(`${form.engine}, ${form.name}: not added, because it may count the same drafts.`);
  }
  if (!found.length) unused.push(...sentencesOfSilent(text));
  return { readings: first ? readingsOf(first) : [], unused };
}

// A sentence for each reason why rows are left out.
function faultsOf({ engine, name, rows }) {
  const faults = rows.map(faultOf).filter(Boolean);
  return [...new Set(faults)].map(
    why => `${engine}, ${name}: ${faults.filter(each => each === why).length} of ${rows.length} ${why}.`,
  );
}

// Why a row cannot be used, or ''.
function faultOf({ accepted, drafted, rounds, reached }) {
  if (accepted === null) return 'end before their numbers';
  if (drafted === 0 || (drafted === null && rounds === 0)) return 'drafted nothing';
  const isRising = reached.some((share, i) => share > (reached[i - 1] ?? 1) + 1e-3);
  if ((drafted !== null && accepted > drafted + 1e-9) || isRising)
    return 'cannot be: more is accepted than was offered';
  return '';
}

function readingsOf({ engine, name, rows }) {
  const groups = new Map();
  for (const row of rows.filter(each => !faultOf(each))) {
    const key = JSON.stringify([row.gamma ?? 0, row.kind]);
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups.values()]
    .sort(([a], [b]) => (a.gamma ?? 0) - (b.gamma ?? 0) || (a.kind < b.kind ? -1 : 1))
    .map(group => sumUp(engine, name, group));
}

// Rows of one draft length together. One that accepted nothing may not tell its rounds; its drafts do.
function sumUp(engine, name, rows) {
  const [{ gamma, kind }] = rows;
  const rounds = rows.map(row => row.rounds || (row.drafted && gamma ? row.drafted / gamma : null)),
    total = rounds.includes(null) ? null : sumOf(rounds);
  const places = total ? Math.min(...rows.map(row => row.reached.length)) : 0;
  return {
    engine,
    form: kind ? `${name}, ${kind}` : name,
    rows: rows.length,
    accepted: sumOf(rows.map(row => row.accepted)),
    rounds: total,
    drafted: rows.some(row => row.drafted === null) ? null : sumOf(rows.map(row => row.drafted)),
    gamma,
    reached: Array.from({ length: places }, (_, i) => sumOf(rows.map((row, n) => rounds[n] * row.reached[i])) / total),
  };
}
