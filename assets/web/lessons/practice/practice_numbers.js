// Draws the numbers of an exercise from a seed, evaluates its answer, and reads and judges what a learner types. Knows no
// DOM. The kinds are data, lessons/exercises.toml, whose expressions a test also evaluates in Python.

import { numbersFrom, seedOf } from '../../lib/seeded_numbers.js';
import { bestGamma, expectedTokens, idealisedSpeedup, paysFrom } from '../../lib/speedup_model.js';
import { parseExpression } from '../rule/rule_expression.js';
import { overall } from '../tools/cost.js';
import { worth } from '../tools/grow_tree.js';
import { passesPerSecond } from '../tools/roofline.js';
import { cacheOf } from '../widgets/devices.js';

const lineOfCosts = slope => ({ 1: 1, 2: 1 + slope });
// FUNCTIONS of lessons/exercises.py has the same names.
const FUNCTIONS = {
  min: Math.min,
  max: Math.max,
  abs: Math.abs,
  floor: Math.floor,
  whole: x => Math.floor(x + 0.5),
  expected: expectedTokens,
  idealised: (alpha, gamma, c, slope) => idealisedSpeedup(alpha, gamma, c, lineOfCosts(slope)),
  best_gamma: (alpha, c, slope, most) => bestGamma(alpha, c, lineOfCosts(slope), most),
  pays_from: paysFrom,
  overall: (hard, good, bad) =>
    overall([
      [hard, bad],
      [1 - hard, good],
    ]),
  passes_a_second: passesPerSecond,
  cache: (layers, heads, size, tokens) => cacheOf({ layers, heads, size }, tokens),
  either: (first, second) => worth([[], []], first, second, 0).tokens - 1,
  two_pairs: (first, second) => worth([[[]], [[]]], first, second, 0).tokens,
};
const MOST_DRAWS = 5000;
export const HIGHEST_SEED = 9999;

const evaluate = (expression, scope) => parseExpression(expression, Object.keys(scope), FUNCTIONS).value(scope);

// The numbers of a kind for a seed: ``scope`` with all of them, ``answer``, ``within``, and the answer that each mistake
// gives. They are drawn again until every need is met, and the answer is apart from all given numbers and mistakes.
export function drawExercise(kind, seed) {
  const random = numbersFrom(seedOf(`${seed} ${kind.name}`));
  for (let draw = 0; draw < MOST_DRAWS; draw++) {
    const scope = Object.fromEntries(
      Object.entries(kind.numbers).map(([name, values]) => [name, values[Math.floor(random() * values.length)]]),
    );
    const isMet = need => Boolean(evaluate(need, scope));
    for (const [name, expression] of Object.entries(kind.values)) scope[name] = evaluate(expression, scope);
    if (!kind.needs.every(isMet)) continue;
    scope.answer = Number(evaluate(kind.answer, scope));
    const within = Number(Number(evaluate(kind.within, scope)).toPrecision(1)),
      mistakes = kind.mistakes.map(({ value, says }) => ({ value: evaluate(value, scope), says }));
    const others = [...mistakes.map(({ value }) => value), ...givenNumbers(kind, scope)];
    const isApart = other => Math.abs(other - scope.answer) > 2 * within;
    if (kind.options.length || others.every(isApart)) return { kind, scope, answer: scope.answer, within, mistakes };
  }
  throw new Error(`The exercise ${kind.name} has no numbers for ${seed}.`);
}

// The numbers that the text shows as they are.
const givenNumbers = (kind, scope) =>
  [kind.text, ...kind.show]
    .flat()
    .filter(([style, text]) => style === 'sum' && text in scope)
    .map(([, text]) => scope[text]);

// A number in a text, with the formats of lessons/markup.py that the exercises use: '', ',', '.2f' and '.0%'.
export function numberText(x, form) {
  if (form === ',') return x.toLocaleString('en');
  const [, digits, kind] = /^\.(\d)([f%])$/.exec(form) ?? [];
  if (kind === '%') return `${(100 * x).toFixed(Number(digits))} %`;
  return kind ? x.toFixed(Number(digits)) : String(Number(x.toPrecision(12)));
}

// A line of a kind with its numbers in place of its expressions, as markup.js draws it.
export const fillLine = (line, scope) =>
  line.map(piece => (piece[0] === 'sum' ? ['sum', numberText(Number(evaluate(piece[1], scope)), piece[2])] : piece));

// The answer as the key writes it.
export function answerText({ kind, answer }) {
  if (kind.options.length) return kind.options[answer].map(([, text]) => text).join('');
  const number = numberText(answer, `.${kind.digits}f`);
  return kind.unit ? `${number} ${kind.unit}` : number;
}

// Every number that a text may mean: 1.5, 1,5 and 3/2 are one, 1,500 may be two, and 150 % is 1.5 where a share or a
// factor is wanted. For a share, 75 may be 0.75, too. Empty for any other text.
export function readings(text, { reads, unit }) {
  let words = text.trim().toLowerCase().replace(/−/g, '-').replace(/\s/g, '');
  const suffix = unit.toLowerCase().replace(/\s/g, '');
  if (suffix && words.endsWith(suffix)) words = words.slice(0, -suffix.length);
  if (suffix === '×' && /\d[x*]$/.test(words)) words = words.slice(0, -1);
  const isPercent = words.endsWith('%');
  if (isPercent && reads === 'number') return [];
  const parts = words.replace(/%$/, '').split('/'),
    [above, below = [1]] = parts.map(numbersIn);
  const found = parts.length > 2 ? [] : above.flatMap(x => below.filter(Boolean).map(y => x / y));
  if (isPercent) return found.map(x => x / 100);
  return reads === 'share' ? found.flatMap(x => (x > 1 ? [x / 100, x] : [x])) : found;
}

function numbersIn(text) {
  const isNumber = /^-?(\d+\.?\d*|\.\d+)$/;
  const writings = [text.replace(',', '.')];
  if (/^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(text)) writings.push(text.replaceAll(',', ''));
  return writings.filter(each => isNumber.test(each)).map(Number);
}

const POWERS = [10, 100, 1000, 0.1, 0.01, 0.001];
const SLACK = 1e-9; // for fractions that are exact on paper

// Judges an answer: { isRight, says }, a line about the mistake. null: no number.
export function judge(exercise, text) {
  const { kind, scope, answer, within, mistakes } = exercise;
  const numbers = readings(text, kind),
    near = wanted => numbers.some(x => Math.abs(x - wanted) <= within + SLACK);
  if (!numbers.length) return null;
  if (near(answer)) return { isRight: true, says: [] };
  const known = mistakes.filter(({ value }) => near(value)).map(({ says }) => fillLine(says, scope));
  if (known.length)
    return { isRight: false, says: known.flatMap((line, i) => (i ? [['text', ' Or: '], ...line] : line)) };
  return { isRight: false, says: [['text', generalSentence(kind, answer, numbers[0], within)]] };
}

function generalSentence({ reads, digits }, answer, number, within) {
  if (digits && POWERS.some(power => Math.abs(number / power - answer) <= within))
    return 'The digits are right, but the point is in another place.';
  if (reads === 'share' && (number < 0 || number > 1)) return 'A share is between 0 and 1.';
  if (digits && Math.abs(number / answer - 1) < 0.04) return 'That’s close. Calculate with more digits.';
  return number < answer ? 'That’s too low.' : 'That’s too high.';
}

// How an answer may be written, and how exact it has to be.
export function formSentence({ kind, within }) {
  if (!within) return 'A whole number.';
  const exact = `An answer within ±${within} is right.`;
  if (kind.reads === 'share') return `Write 0.25, 25 % or 1/4. ${exact}`;
  return kind.reads === 'factor' ? `Write 1.5, 150 % or 3/2. ${exact}` : exact;
}
