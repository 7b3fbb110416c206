// Drafts by prompt lookup, as engine/drafters/ngram.py does for a chain: proposes what followed the most recent occurrence of the
// longest matching end of the text.
// @ts-check

const LONGEST = 8; // tokens of the longest match that is looked up

// ``copyFrom``: the first prompt token that may be copied; ``eos`` ends a text, ``control``: ids that no text has inside.
// Returns ``look(committed, most)``: the tokens, and the length of the match before each, as if those before it were right.
/**
 * @param {number} copyFrom
 * @param {Set<number>} eos
 * @param {Set<number>} control
 */
export function makeNgram(copyFrom, eos, control) {
  /** @type {Map<string, number>} */
  const follow = new Map(); // n-gram → the index after it
  let indexed = Math.max(copyFrom - 1, 0);

  /**
   * @param {number[]} committed
   * @param {number} end
   * @param {number} n
   */
  const ngram = (committed, end, n) => committed.slice(end - n, end).join(' ');

  // The last token's own n-grams are left out: they have no successor yet and would match themselves.
  /** @param {number[]} committed */
  function read(committed) {
    for (let end = indexed + 1; end < committed.length; end++)
      for (let n = 1; n <= Math.min(LONGEST, end); n++) follow.set(ngram(committed, end, n), end);
    indexed = Math.max(indexed, committed.length - 1);
  }

  // The tokens from ``after`` on, then their own copy, so that a repeating pattern is continued.
  /**
   * @param {number[]} committed
   * @param {number} after
   * @param {number} most
   */
  function continuation(committed, after, most) {
    const tokens = [];
    while (tokens.length < most) {
      const at = after + tokens.length,
        token = at < committed.length ? committed[at] : tokens[at - committed.length];
      if (control.has(token) && !eos.has(token)) break;
      tokens.push(token);
      if (eos.has(token)) break;
    }
    return tokens;
  }

  /**
   * @param {number[]} committed
   * @param {number} most
   */
  return (committed, most) => {
    read(committed);
    for (let n = Math.min(LONGEST, committed.length - 1); n > 0; n--) {
      const after = follow.get(ngram(committed, committed.length, n));
      if (after === undefined) continue;
      const tokens = continuation(committed, after, most);
      return { tokens, keys: tokens.map((_, i) => Math.min(n + i, LONGEST)) };
    }
    return { tokens: [], keys: [] };
  };
}
