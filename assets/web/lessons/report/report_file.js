// Writes the report of a learner's own work as data, and as a page without a script that has the data, too. Knows no page
// and no storage.
import { percent, quantity } from '../../lib/format.js';
import { isDrafted, isEmitted, isTested, STATUSES } from '../../lib/statuses.js';

export const KIND = 'speclens-report';
export const VERSION = 1;
export const SCRIPT = 'script'; // a whole tag would end the script of a page from disk
const MARKS = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const asHtml = text => String(text).replace(/[&<>"]/g, each => MARKS[each]);

// What a saved trace says in one line: settings and counts. It says no speedup, which needs more than two clocks.
export function summaryOf({ started, rounds, finished }) {
  const tokens = rounds.flatMap(round => round.tokens),
    accepted = tokens.filter(token => isDrafted(token) && isEmitted(token)).length,
    tested = tokens.filter(isTested).length,
    emitted = tokens.filter(isEmitted).length;
  const { config } = started;
  return {
    prompt: String(config.prompt ?? ''),
    settings: `${started.pair}, ${config.method}, γ ${config.gamma}, temperature ${config.sampling?.temperature ?? 0}, seed ${config.seed ?? 0}`,
    at: String(started.at ?? ''),
    tokens: emitted,
    alpha: tested ? accepted / tested : null,
    tau: rounds.length ? emitted / rounds.length : null,
    isShared: rounds.some(round => round.rows > 1),
    tokensPerSecond: finished?.decode_seconds > 0 ? emitted / finished.decode_seconds : null,
    text: String(finished?.text ?? ''),
  };
}

// Reads a saved trace. Throws an Error with a sentence for any other file.
export function readTrace(name, text) {
  let trace = null;
  try {
    trace = JSON.parse(text);
  } catch {
    /* said below */
  }
  const isRound = round =>
    Array.isArray(round?.tokens) && round.tokens.every(token => Object.hasOwn(STATUSES, token?.status));
  if (!trace?.started?.config || !Array.isArray(trace.rounds) || !trace.rounds.every(isRound))
    throw new Error(`${name} isn’t a saved trace. Choose files of “Save trace (JSON)”.`);
  return trace;
}

// ``lessons``: the list; ``read(slug)``: the progress in one; ``guesses``: as guess_log.js keeps them; ``practice``: as
// practice_progress.js does; ``rules``: what the learner wrote, by title; ``runs``: [{file, trace}].
export function reportData({ name, words, at, lessons, read, guesses, practice, rules, runs }) {
  const ofLesson = ({ slug, number, title, steps }) => {
    const { done, over } = read(slug),
      { asks = {}, quiz = null } = guesses[slug] ?? {};
    const own = Object.entries(asks).map(([step, entry]) => ({ step: Number(step) + 1, ...entry }));
    return {
      lesson: slug,
      title: `${number}. ${title}`,
      steps: done.filter(step => step <= steps).length,
      of: steps + 1, // the questions at the end are a step
      isOver: over,
      guesses: own,
      quiz,
    };
  };
  const begun = lessons.map(ofLesson).filter(each => each.steps || each.isOver || each.guesses.length);
  return {
    kind: KIND,
    version: VERSION,
    at,
    name,
    words,
    lessons: begun,
    exercises: practice.kinds,
    sets: practice.sets,
    rules: Object.entries(rules)
      .filter(([, { isChecked, solved }]) => isChecked || solved)
      .map(([rule, { texts, solved }]) => ({ rule, texts: solved ?? texts, isRight: Boolean(solved) })),
    runs: runs.map(({ file, trace }) => ({ file, ...summaryOf(trace), trace })),
  };
}

// For JSON.stringify: the report without the traces of its runs.
export const withoutTrace = (key, value) => (key === 'trace' ? undefined : value);

const ENDS = { right: '✓', shown: 'solution read' };

// The answers to each set of numbers, which a teacher opens by the same seed. ``titleOf(kind)``: the exercise's title.
const answersOf = (sets, titleOf) =>
  sets.flatMap(({ seed, answers }) =>
    Object.entries(answers)
      .filter(([, { tries, end }]) => tries || end)
      .map(([kind, { text, tries, hints, end }]) => [seed, titleOf(kind), text, tries, hints, ENDS[end] ?? '✗']),
  );

function sumOf(lessons) {
  const guesses = lessons.flatMap(each => each.guesses),
    right = guesses.filter(each => each.isRight).length;
  const over = lessons.filter(each => each.isOver).length;
  return `${quantity(over, 'lesson')} finished; ${right} of ${quantity(guesses.length, 'first guess')} right.`;
}

const table = (heads, rows) =>
  `<table><thead><tr>${heads.map(head => `<th>${asHtml(head)}</th>`).join('')}</tr></thead><tbody>${rows
    .map(cells => `<tr>${cells.map(cell => `<td>${asHtml(cell)}</td>`).join('')}</tr>`)
    .join('')}</tbody></table>`;

function lessonPart({ title, steps, of, isOver, guesses, quiz }) {
  const state = isOver ? 'finished' : `${steps} of ${quantity(of, 'step')}`,
    score = quiz ? `; ${quiz.first} of ${quiz.of} questions right at the first try` : '';
  const rows = guesses.map(({ step, question, guess, isRight }) => [step, question, guess, isRight ? '✓' : '✗']);
  const own = rows.length ? table(['Step', 'Question', 'My first guess', ''], rows) : '';
  return `<h3>${asHtml(title)}</h3><p>${asHtml(state + score)}.</p>${own}`;
}

function runPart({ file, trace, ...run }) {
  const numbers = [
    quantity(run.tokens, 'token'),
    run.alpha === null
      ? 'no draft was tested'
      : `α = ${run.alpha.toFixed(2)} (${percent(run.alpha)} of the tested drafts)`,
    run.tau === null ? '' : `τ = ${run.tau.toFixed(2)} tokens per pass`,
    run.tokensPerSecond === null ? '' : `${run.tokensPerSecond.toFixed(1)} tokens a second`,
  ].filter(Boolean);
  const shared = run.isShared ? ' It shared passes with other runs, so its clock says nothing about drafting.' : '';
  const bytes = new TextEncoder().encode(JSON.stringify(trace)),
    data = btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
  const link = `<a download="${asHtml(file)}" href="data:application/json;base64,${data}">Save its trace</a>`;
  return `<h3>${asHtml(run.settings)}</h3><p>${asHtml(run.at)}</p><pre>${asHtml(run.prompt)}</pre><pre>${asHtml(run.text)}</pre>
<p>${asHtml(numbers.join('; '))}.${shared} ${link}</p>`;
}

const STYLE = `:root{color-scheme:light dark}body{max-width:80ch;margin:0 auto;padding:16px;font:16px/1.5 system-ui,sans-serif}
pre{padding:8px 10px;border:1px solid;border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;font-size:13px}
table{border-collapse:collapse;width:100%}th,td{padding:4px 8px;border-bottom:1px solid;text-align:left;vertical-align:top}
h3,tr,pre{break-inside:avoid}`;

// The data, without the traces. As it has no <, it ends no tag; report_table.js finds it.
const dataBlock = data => {
  const json = JSON.stringify(data, withoutTrace).replaceAll('<', '\\u003c');
  return `<${SCRIPT} type="application/json" id="${KIND}">${json}</${SCRIPT}>`;
};

// The report as a page. Everything that anybody wrote is escaped, and the page's policy allows no script. ``kinds``: the
// exercises, for their titles.
export function reportPage(data, kinds) {
  const policy = "default-src 'none'; style-src 'unsafe-inline'",
    title = data.name ? `SpecLens: the report of ${data.name}` : 'SpecLens: a report';
  const titleOf = kind => kinds.find(({ name }) => name === kind)?.title ?? kind;
  const exercises = Object.entries(data.exercises).map(([kind, { right = 0, first = 0, tries = 0 }]) => [
    titleOf(kind),
    right,
    first,
    tries,
  ]);
  const answers = answersOf(data.sets, titleOf);
  const rules = data.rules.map(({ rule, texts, isRight }) => [rule, texts.join('; '), isRight ? '✓' : '✗']);
  const parts = [
    data.words && `<p>${asHtml(data.words)}</p>`,
    `<h2>Lessons</h2><p>${sumOf(data.lessons)}</p>${data.lessons.map(lessonPart).join('')}`,
    exercises.length && `<h2>Exercises</h2>${table(['Exercise', 'Solved', 'At the first try', 'Answers'], exercises)}`,
    answers.length && table(['Set', 'Exercise', 'My last answer', 'Answers', 'Hints', ''], answers),
    data.rules.length && `<h2>Rules that I wrote</h2>${table(['Exercise', 'My rule', ''], rules)}`,
    data.runs.length && `<h2>My runs</h2>${data.runs.map(runPart).join('')}`,
  ];
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${asHtml(title)}</title><style>${STYLE}</style></head>
<body><h1>${asHtml(title)}</h1><p>${asHtml(data.at)}</p>
${parts.filter(Boolean).join('\n')}
${dataBlock(data)}
</body></html>
`;
}
