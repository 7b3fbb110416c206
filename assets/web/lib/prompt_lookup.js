// Looks up where the end of a text occurred before, and what followed. The engine's
// drafter and the lessons' rounds use it.

export const LONGEST = 8; // tokens of the longest match that is looked up

/** Each earlier place where the end of ``text`` occurred: its length and the index ``after`` it, the longest first,
 * then the most recent.
 * @template T @param {T[]} text @param {number} [first] the index of the first token that may be copied */
export function* occurrences(text, first = 1) {
  for (let length = Math.min(LONGEST, text.length - 1); length > 0; length--)
    for (let after = text.length - 1; after >= Math.max(first, length); after--) {
      let same = 0;
      while (same < length && text[after - 1 - same] === text[text.length - 1 - same]) same++;
      if (same === length) yield { length, after };
    }
}

/** The tokens from ``after`` on, then their own copy, so that a repeating pattern is continued.
 * @template T @param {T[]} text @param {number} after @param {number} most */
export function continuation(text, after, most) {
  /** @type {T[]} */
  const tokens = [];
  for (let at = after; tokens.length < most; at++) tokens.push(at < text.length ? text[at] : tokens[at - text.length]);
  return tokens;
}
