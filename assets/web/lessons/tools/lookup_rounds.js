// Plays rounds of n-gram lookup on a text that is known to its end. Knows no DOM.
import { continuation, occurrences } from '../../lib/prompt_lookup.js';

// The draft from the first place to copy from; ``besides``: the first one that continues with another token.
function lookUp(text, gamma, besides) {
  for (const { length, after } of gamma ? occurrences(text) : [])
    if (text[after] !== besides) return { length, drafts: continuation(text, after, gamma) };
  return { length: 0, drafts: [] };
}

// The rounds that write ``tokens`` from ``known`` on, greedy: { at, length, drafts, others, accepted, isOther, emitted,
// rows }. ``ways`` 2: ``others`` are guesses from another place, and ``isOther`` if theirs were accepted. The last
// round drafts no more than is left but one.
export function ownRounds(tokens, known, gamma, ways = 1) {
  const rounds = [];
  const right = (drafts, at) => {
    const wrong = drafts.findIndex((draft, i) => draft !== tokens[at + i]);
    return wrong < 0 ? drafts.length : wrong;
  };
  for (let at = known; at < tokens.length; ) {
    const text = tokens.slice(0, at),
      most = Math.min(gamma, tokens.length - at - 1),
      { length, drafts } = lookUp(text, most);
    const others = ways > 1 && drafts.length ? lookUp(text, most, drafts[0]).drafts : [],
      counts = [right(drafts, at), right(others, at)],
      accepted = Math.max(...counts);
    rounds.push({
      at,
      length,
      drafts,
      others,
      accepted,
      isOther: counts[1] > counts[0],
      emitted: accepted + 1,
      rows: 1 + drafts.length + others.length,
    });
    at += accepted + 1;
  }
  return rounds;
}

// Tokens for each plain step: a copy costs nothing to make, a pass over ``rows`` tokens costs ``time(rows)``.
export const ownSpeedup = (rounds, time) =>
  rounds.reduce((sum, round) => sum + round.emitted, 0) / rounds.reduce((sum, round) => sum + time(round.rows), 0);
