// Drafts by prompt lookup, as engine/drafters/ngram.py does for a chain: proposes what followed the most recent
// occurrence of the longest matching end of the text.
import { continuation, LONGEST, occurrences } from '../lib/prompt_lookup.js';

/** Returns ``look(committed, most)``: the tokens, and the length of the match before each, as if those before it were
 * right.
 * @param {number} copyFrom the first prompt token that may be copied
 * @param {Set<number>} eos ends a text @param {Set<number>} control ids that no text has inside */
export function makeNgram(copyFrom, eos, control) {
  /** @param {number[]} committed @param {number} most */
  return (committed, most) => {
    const [found] = occurrences(committed, copyFrom);
    if (!found) return { tokens: [], keys: [] };
    const copy = continuation(committed, found.after, most),
      end = copy.findIndex(token => control.has(token) || eos.has(token)),
      tokens = end < 0 ? copy : copy.slice(0, end + Number(eos.has(copy[end])));
    return { tokens, keys: tokens.map((_, i) => Math.min(found.length + i, LONGEST)) };
  };
}
