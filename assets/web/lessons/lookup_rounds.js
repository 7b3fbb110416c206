// Plays rounds of n-gram lookup on a text that is known to its end. Knows no DOM.

const LONGEST = 8;

// Each earlier place where the end of ``text`` occurred, with ``gamma`` tokens that followed it: the longest match first,
// then the most recent place, as the engine looks them up. Beyond the text's own end it goes on with their copy, so that a
// pattern is continued.
function* occurrences(text, gamma) {
  for (let length = Math.min(LONGEST, text.length - 1); length > 0; length--) {
    const end = text.slice(-length);
    for (let start = text.length - length - 1; start >= 0; start--) {
      if (!end.every((token, i) => text[start + i] === token)) continue;
      const drafts = [];
      for (let at = start + length; drafts.length < gamma; at++)
        drafts.push(at < text.length ? text[at] : drafts[at - text.length]);
      yield { length, drafts };
    }
  }
}

// The first of these places; ``besides``: the first one that continues with another token.
function lookUp(text, gamma, besides) {
  for (const found of gamma ? occurrences(text, gamma) : []) if (found.drafts[0] !== besides) return found;
  return { length: 0, drafts: [] };
}

// The rounds that write ``tokens`` from ``known`` on, greedy: { at, length, drafts, others, accepted, isOther, emitted,
// rows }. ``ways`` 2: ``others`` are guesses from another place, and ``isOther`` if theirs were accepted. The last round
// drafts no more than is left but one.
export function ownRounds(tokens, known, gamma, ways = 1) {
  const rounds = [],
    right = (drafts, at) => {
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
