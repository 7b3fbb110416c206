// Writes tokens, numbers and shares as texts for people.

/** A token's text with visible whitespace; the output text keeps its whitespace as it is. @param {string} piece */
export const visible = piece =>
  /^ +$/.test(piece) ? '␣'.repeat(piece.length) : piece.replace(/\n/g, '⏎').replace(/\t/g, '⇥').replace(/ /g, '\u00a0');
const LONG = 300; // characters of one token on screen; only a made-up trace has longer ones
/** @param {{ text: string, label?: string, id?: number | null }} token */
export function tokenText(token) {
  const text = token.text || token.label || `#${token.id}`;
  return visible(text.length > LONG ? `${text.slice(0, LONG)}…` : text);
}
/** Isolated, so that a token with a right-to-left mark cannot turn the sentence around it. @param {string} text */
export const isolate = text => `\u2068${text}\u2069`;

/** Numbers as a person reads them: three decimals, and powers of ten only below a thousandth.
 * @param {number | null} [x] */
export function format(x) {
  if (x === undefined || x === null) return '–';
  if (x === 0 || Math.abs(x) >= 0.001) return x.toFixed(3);
  const [digits, power] = x.toExponential(1).split('e');
  return `${digits}·10${[...power].map(sign => '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'['-0123456789'.indexOf(sign)] || '').join('')}`;
}
/** "1 token", "2 tokens", "3 passes".
 * @param {number} count @param {string} noun @param {string} [shown] the number as it is written */
export const quantity = (count, noun, shown = String(count)) =>
  `${shown} ${noun}${count === 1 ? '' : noun.endsWith('s') ? 'es' : 's'}`;
/** One side of p / q: three digits that count, so that dividing them gives the ratio shown. @param {number} x */
export const ratioPart = x => (x > 0 && x < 0.1 && x >= 1e-4 ? String(Number(x.toPrecision(3))) : format(x));
/** No line breaks before the sign. @param {number} x */
export const percent = x =>
  `${x > 0 && x < 0.001 ? '<0.1' : x < 1 && x > 0.999 ? '>99.9' : (100 * x).toFixed(1)}\u00a0%`;
/** The same to the nearest percent. @param {number} x */
export const wholePercent = x => `${Math.round(100 * x)}\u00a0%`;
/** The same within a sentence, where < and > would be misread. @param {number} x */
export const spokenPercent = x => percent(x).replace('<', 'less than ').replace('>', 'more than ');

// What a reader does to a token.
export const pressVerb = matchMedia('(pointer: coarse)').matches ? 'tap' : 'click';
export const stepVerb = pressVerb === 'tap' ? 'step' : 'step with K'; // a finger has buttons for it
