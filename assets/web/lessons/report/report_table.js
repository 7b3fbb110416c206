// Reads the reports of a class into the columns of a table, and writes them as a CSV. Knows no page. A report is a file
// that anybody may have changed, so each part is checked before it is counted.
import { KIND, SCRIPT, VERSION, withoutTrace } from './report_file.js';

const countOf = (entries, isCounted = () => true) => entries.filter(isCounted).length;

function whole(number = 0) {
  if (!Number.isSafeInteger(number) || number < 0) throw new TypeError();
  return number;
}
const sum = numbers => numbers.reduce((total, each) => total + whole(each), 0);
function text(value, most) {
  if (typeof value !== 'string') throw new TypeError();
  return value.slice(0, most).trim();
}
const numberOf = ({ title }) => /^\d{1,3}(?=\.)/.exec(title)?.[0] ?? '';
const isRight = each => each.isRight === true;
const isOver = lesson => lesson.isOver === true;
const isBegun = lesson => !isOver(lesson);
const stepsOf = lesson => `lesson ${numberOf(lesson)}: ${whole(lesson.steps)} of ${whole(lesson.of)}`;
const guessesOf = ({ lessons }) => lessons.flatMap(lesson => lesson.guesses);
const quizzesOf = ({ lessons }) => lessons.flatMap(({ quiz }) => quiz ?? []);
const exercisesOf = ({ exercises }) => Object.values(exercises);

// ``heads``: one for each text or number of a cell, as a CSV has them; a table shows two numbers as "3 of 4".
// ``read(report)``: these texts or numbers.
export const COLUMNS = [
  { heads: ['Name'], read: ({ name }) => [text(name, 80)] },
  { heads: ['Lessons finished'], read: ({ lessons }) => [countOf(lessons, isOver)] },
  { heads: ['Numbers of these lessons'], read: ({ lessons }) => [lessons.filter(isOver).map(numberOf).join(', ')] },
  { heads: ['Lessons begun'], read: ({ lessons }) => [lessons.filter(isBegun).map(stepsOf).join(', ')] },
  {
    heads: ['First guesses right', 'First guesses'],
    read: report => [countOf(guessesOf(report), isRight), countOf(guessesOf(report))],
  },
  {
    heads: ['Questions right at the first try', 'Questions'],
    read: report => [sum(quizzesOf(report).map(quiz => quiz.first)), sum(quizzesOf(report).map(quiz => quiz.of))],
  },
  { heads: ['Exercises solved'], read: report => [sum(exercisesOf(report).map(each => each.right))] },
  { heads: ['Exercises solved at the first try'], read: report => [sum(exercisesOf(report).map(each => each.first))] },
  { heads: ['Answers to exercises'], read: report => [sum(exercisesOf(report).map(each => each.tries))] },
  { heads: ['Sets of exercises'], read: ({ sets }) => [sets.map(({ seed }) => whole(seed)).join(', ')] },
  { heads: ['Rules right', 'Rules'], read: ({ rules }) => [countOf(rules, isRight), countOf(rules)] },
  { heads: ['Runs'], read: ({ runs }) => [countOf(runs)] },
  { heads: ['Saved'], read: ({ at }) => [text(at, 40)] },
  { heads: ['In my own words'], read: ({ words }) => [text(words, 2000)] },
];

const DATA = new RegExp(`<${SCRIPT} type="application/json" id="${KIND}">([^<]*)</${SCRIPT}>`);
const ASK = 'Ask for the file that “My report” saved.';

function parseJson(content) {
  try {
    return JSON.parse(content);
  } catch {
    return null;
  }
}

// Returns the cells of a report, a list of texts or numbers for each column, and its data as a text, which is the same for
// the page and the JSON of a report. Throws an Error with a sentence for any other file. ``file``: its name, ``content``:
// its text.
export function readReport(file, content) {
  const isPage = /^\s*<!doctype html/i.test(content),
    [, data] = (isPage && DATA.exec(content)) || [],
    report = parseJson(isPage ? (data ?? '') : content);
  if (isPage && data === undefined) throw new Error(`${file} is a page without a report’s data. ${ASK}`);
  if (isPage && !report) throw new Error(`${file} is a damaged report.`);
  if (report?.started && report.rounds) throw new Error(`${file} is the trace of a run, not a report.`);
  if (report?.kind !== KIND) throw new Error(`${file} isn’t a report. ${ASK}`);
  if (report.version !== VERSION) throw new Error(`${file} is a report of another version of this page.`);
  try {
    const [[name], ...others] = COLUMNS.map(({ read }) => read(report));
    return { row: [[name || `no name (${file})`], ...others], data: JSON.stringify(report, withoutTrace) };
  } catch {
    throw new Error(`${file} is a damaged report.`);
  }
}

export const isNumber = value => typeof value === 'number';

// The sum of each number of these rows; an empty list for a column of texts.
export const sumsOf = rows =>
  COLUMNS.map((_, i) =>
    rows.length && rows[0][i].every(isNumber)
      ? rows[0][i].map((_, place) => rows.reduce((total, row) => total + row[i][place], 0))
      : [],
  );

// By a column: texts from A to Z, numbers from the largest down; ``isReversed``: the other way round.
export function sortRows(rows, column, isReversed) {
  const compare = (a, b) => (isNumber(a) ? b - a : a.localeCompare(b, undefined, { numeric: true }));
  return rows.toSorted((one, other) => compare(one[column][0], other[column][0]) * (isReversed ? -1 : 1));
}

// Some spreadsheet takes a cell that begins so for a formula, as engine/files.py says.
const STARTS_FORMULA = /^(?:\s*[=+\-@|%＝＋－＠]|[\t\r\n])/;
function csvCell(value) {
  if (isNumber(value)) return String(value);
  return `"${(STARTS_FORMULA.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`;
}

// The mark before it tells a spreadsheet that it is UTF-8.
export const csvText = rows =>
  `\ufeff${[COLUMNS.map(({ heads }) => heads), ...rows].map(row => `${row.flat().map(csvCell).join(',')}\r\n`).join('')}`;
