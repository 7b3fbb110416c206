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
};
const LEVELS = [
  ['<', '>', '<=', '>='],
  ['+', '-'],
  ['*', '/'],
]; // what binds least comes first

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
  const plain = text.toLowerCase().replace(/[−–×·÷≤≥]/g, sign => OTHER_SIGNS[sign]);
  const tokens = plain.match(/\d+\.?\d*|\.\d+|[a-z_]+|<=|>=|\S/g) ?? [];
  const foreign = tokens.find(token => !/^(\d+\.?\d*|\.\d+|[a-z_]+|<=|>=|[-+*/<>(),])$/.test(token));
  if (foreign) throw new Error(`“${foreign}” can’t be read here.`);
  return tokens;
}

/** Returns ``value(scope)``, a number or a row, and the names that the expression uses. Throws an Error whose message is
 * a sentence for the learner.
 * @param {string} text @param {string[]} names what may be used */
export function parseExpression(text, names) {
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
    if (!take('-')) return atom();
    const inner = unary();
    return scope => broadcast(x => -x, inner(scope));
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
    if (Object.hasOwn(FUNCTIONS, token)) return call(FUNCTIONS[token]);
    if (!names.includes(token))
      throw new Error(`There is no “${token}” here. You can use ${[...names, ...Object.keys(FUNCTIONS)].join(', ')}.`);
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
