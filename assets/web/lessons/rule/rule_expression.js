// Reads an expression of the exercise in which learners write the rule: arithmetic on numbers and rows. It is evaluated
// on its own tree, so nothing that is typed can run as a script.

const OTHER_SIGNS = { '−': '-', '–': '-', '×': '*', '·': '*', '÷': '/', '≤': '<=', '≥': '>=' };
const OPERATORS = {
  '<': (a, b) => Number(a < b),
  '>': (a, b) => Number(a > b),
  '<=': (a, b) => Number(a <= b),
  '>=': (a, b) => Number(a >= b),
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '^': (a, b) => a ** b,
};
const LEVELS = [
  ['<', '>', '<=', '>='],
  ['+', '-'],
  ['*', '/'],
]; // what binds least comes first, but for powers

// Applies a function of numbers to each word of the rows among its values.
function broadcast(operate, ...values) {
  const row = values.find(Array.isArray);
  if (!row) return operate(...values);
  return row.map((_, i) => operate(...values.map(value => (Array.isArray(value) ? value[i] : value))));
}
const sum = value => [value].flat().reduce((a, b) => a + b, 0);
const normalise = value => broadcast((x, all) => x / all, value, sum(value));
const FUNCTIONS = {
  min: (...values) => broadcast(Math.min, ...values),
  max: (...values) => broadcast(Math.max, ...values),
  abs: value => broadcast(Math.abs, value),
  sum,
  normalise,
  normalize: normalise,
  softmax: value => normalise(broadcast(Math.exp, value)),
};

function tokensOf(text) {
  const plain = text
    .toLowerCase()
    .replaceAll('**', '^')
    .replace(/[−–×·÷≤≥]/g, sign => OTHER_SIGNS[sign]);
  const tokens = plain.match(/\d+\.?\d*|\.\d+|[a-z_]+|<=|>=|\S/g) ?? [];
  const foreign = tokens.find(token => !/^(\d+\.?\d*|\.\d+|[a-z_]+|<=|>=|[-+*/^<>(),])$/.test(token));
  if (foreign) throw new Error(`“${foreign}” can’t be read here.`);
  return tokens;
}

/** Returns ``value(scope)``, a number or a row, and the names that the expression uses. Throws an Error whose message is
 * a sentence for the learner.
 * @param {string} text @param {string[]} names what may be used @param {Record<string, Function>} functions */
export function parseExpression(text, names, functions = FUNCTIONS) {
  const tokens = tokensOf(text),
    uses = new Set();
  let at = 0;
  const take = token => tokens[at] === token && Boolean(++at);
  const fail = token =>
    new Error(token === undefined ? 'Something is missing at the end.' : `“${token}” doesn’t fit there.`);
  function expect(token) {
    if (!take(token)) throw fail(tokens[at]);
  }

  function binary(level) {
    if (level === LEVELS.length) return unary();
    let value = binary(level + 1);
    while (LEVELS[level].includes(tokens[at])) {
      const operate = OPERATORS[tokens[at++]],
        first = value,
        second = binary(level + 1);
      value = scope => broadcast(operate, first(scope), second(scope));
    }
    return value;
  }
  function unary() {
    if (!take('-')) return power();
    const inner = unary();
    return scope => broadcast(x => -x, inner(scope));
  }
  function power() {
    const base = atom();
    if (!take('^')) return base;
    const exponent = unary();
    return scope => broadcast(OPERATORS['^'], base(scope), exponent(scope));
  }
  function atom() {
    const token = tokens[at++];
    if (token === '(') {
      const inner = binary(0);
      expect(')');
      return inner;
    }
    if (/^\d|^\.\d/.test(token ?? '')) return () => Number(token);
    if (!/^[a-z_]/.test(token ?? '')) throw fail(token);
    if (Object.hasOwn(functions, token)) return call(functions[token]);
    if (!names.includes(token))
      throw new Error(`There is no “${token}” here. You can use ${[...names, ...Object.keys(functions)].join(', ')}.`);
    uses.add(token);
    return scope => scope[token];
  }
  function call(operate) {
    expect('(');
    const values = [binary(0)];
    while (take(',')) values.push(binary(0));
    expect(')');
    return scope => operate(...values.map(value => value(scope)));
  }

  const value = binary(0);
  if (at < tokens.length) throw fail(tokens[at]);
  return { value, uses };
}

export const problem = (hole, message) => Object.assign(new Error(message), { hole });

// The expressions of some holes, each with the ``names`` that it may use. Throws an Error with its ``hole``.
export const readHoles = (texts, holes) =>
  holes.map(({ names }, hole) => {
    if (!texts[hole]?.trim()) throw problem(hole, 'This hole is empty: press a block, or type.');
    try {
      return parseExpression(texts[hole], names);
    } catch (error) {
      throw problem(hole, error.message);
    }
  });

const CLOSE = 1e-9;
export const isClose = (row, other) => row.every((x, i) => Math.abs(x - other[i]) < CLOSE);

// The row of an expression as chances that add up to 1. Throws an Error with its ``hole``, also for a row that is none.
export function readRow(value, hole, words, scope) {
  if (!Array.isArray(value)) throw problem(hole, 'This is one number. To draw a word, you need a row, such as p.');
  const bad = value.findIndex(x => !(x > -CLOSE && x < Infinity));
  if (bad >= 0) {
    const differences = scope.p.map((x, i) => x - scope.q[i]);
    const known = isClose(value, differences)
      ? ' It’s the known mistake residual-unclamped: the residual keeps its negative parts.'
      : '';
    throw problem(hole, `It has ${value[bad].toFixed(2)} for ${words[bad]}, which is no probability.${known}`);
  }
  const row = value.map(x => Math.max(0, x));
  if (!row.some(Boolean)) throw problem(hole, 'It is 0 for every word, so none can be drawn from it.');
  return row.map(x => x / row.reduce((a, b) => a + b, 0));
}
