// Words how the drafts of a round came about, for the methods of which their order on screen does not tell it. Knows no
// DOM.
/** @import { About } from './lines.d.ts' */
/** @import { Round, Token } from './rounds.d.ts' */

/** @param {Round} round @param {About} about */
const methodOf = (round, about) => round.method ?? about.method;

/** The rows of lookahead's window come last in its tree, and of them only the first follows the pending token.
 * Undefined where the window had no room.
 * @param {Round} round @param {About['settings']} [sizes] */
function windowRows({ parents, drafts }, sizes) {
  if (!sizes) return undefined;
  const { window, ngram } = sizes;
  const rows = drafts - (parents ? parents.lastIndexOf(0) : 0);
  return rows % window === 0 && rows <= (ngram - 1) * window ? rows : undefined;
}

/** @param {Round} round @param {About} about */
function lookaheadSentence(round, about) {
  const rows = windowRows(round, about.settings),
    tried = round.drafts - rows;
  if (rows === undefined) return '';
  return `${round.drafts} rows in one pass: ${tried} tried n-grams of the pool, ${rows} moved the window.`;
}

/** @type {Record<string, (round: Round, about: About) => string>} */
const HOW_DRAFTED = {
  medusa: ({ drafts }) => (drafts > 1 ? 'Guessed at once, each by a head of its own: none saw the other.' : ''),
  block: ({ drafts }) => (drafts > 1 ? 'Guessed at once, in one pass of a small network: none saw the other.' : ''),
  lookahead: lookaheadSentence,
  exit: (round, { exit }) =>
    `The target’s ${exit ? `first ${exit[0]} of ${exit[1]}` : 'lower'} layers guessed, one token after the other; its pass runs all layers.`,
};
/** @param {Round} round @param {About} about */
export const draftedSentence = (round, about) =>
  round.drafts ? (HOW_DRAFTED[methodOf(round, about)]?.(round, about) ?? '') : '';

// No draft of these was drawn after another: they are columns, each called by this and its number.
const COLUMNS = { medusa: 'head', block: 'place' };
/** @param {Round} round @param {About} about */
export const columnOf = (round, about) =>
  round.drafts > 1 && !round.parents ? COLUMNS[methodOf(round, about)] : undefined;

/** The part of one draft in that. @param {Token} token @param {Round} round @param {About} about */
export function ownPart(token, round, about) {
  const method = methodOf(round, about);
  if (method === 'medusa' && !round.parents)
    return `Head ${token.index + 1} guessed it from the state before this round; it saw none of the other drafts.`;
  if (method === 'block' && !round.parents)
    return `Place ${token.index + 1} of its block, from the one pass that gave the whole round; it saw none of the other drafts.`;
  const rows = method === 'lookahead' ? windowRows(round, about.settings) : undefined;
  if (rows === undefined) return '';
  return token.index < round.drafts - rows
    ? 'From an n-gram of the pool.'
    : 'A token of the window. Its row moves the window forward, and the target tests it too.';
}
