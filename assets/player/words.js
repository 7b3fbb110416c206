// What is said about a token, a round and a run. Sentences only; no DOM.

const MARKS = { accepted: '✓', rejected: '', resampled: '↻', bonus: '+', discarded: '', plain: '·', waiting: '?', scored: '?' };
const NAMES = { waiting: 'draft', scored: 'draft, scored' };
const ENDS = {
  eos: 'The model ended its answer', stop: 'A stop text was reached',
  length: 'The token limit was reached', cancelled: 'Stopped', lost: 'The run broke off',
};
const quote = token => `“${isolated(shown(token))}”`;

function verdictSentence(token, u = token.u) {
  if (token.accept === undefined || u === undefined) return token.status === 'accepted' ? 'Kept.' : 'Refused.';
  return u < token.accept
    ? `u = ${format(u)} was below ${format(token.accept)}, so it stays.`
    : `u = ${format(u)} was not below ${format(token.accept)}, so it goes.`;
}

const drawnBy = ({ u, p }) => u === undefined || p === undefined ? ', drawn from p'
  : `: u = ${format(u)} drew it from p, where it had ${percent(p)}`;

function tokenSentence(token, stage) {
  if (stage === 'waiting') return 'Guessed by the draft; the target has not looked at it yet.';
  if (stage === 'scored') return token.accept === undefined ? 'Scored by the target; no verdict yet.'
    : `Scored by the target: it stays if u falls below ${format(token.accept)}.`;
  switch (token.status) {
    case 'accepted': case 'rejected': return verdictSentence(token);
    case 'resampled': return 'Drawn from the residual: what p has left where the refused draft’s q is taken away.';
    case 'bonus': return `Every draft was kept, so the same target pass gives one more token${drawnBy(token)}.`;
    case 'discarded': return token.accept === undefined ? 'Never tested: it stood behind a refusal or past the end.'
      : `Never tested: it stood behind a refusal or past the end. It would have stayed if u fell below ${format(token.accept)}.`;
    default: return `No draft in this round: one target pass, one token${drawnBy(token)}.`;
  }
}

// One line per round for a screen reader, said when the round is complete.
function roundSentence(round) {
  const closing = round.tokens[round.drafts];
  const end = closing ? `${closing.status} ${quote(closing)}` : 'no closing token';
  if (!round.drafts) return `Round ${round.index + 1}: ${end}.`;
  const refused = round.tokens.find(token => token.status === 'rejected');
  const why = refused ? `, ${quote(refused)} refused` : '';
  return `Round ${round.index + 1}: ${round.kept} of ${round.drafted} drafts kept${why}, then ${end}.`;
}

function endSentence({ reason, tokens }) {
  return `${ENDS[reason] || 'Ended'} after ${tokens} tokens.`;
}

function comparedSentence({ verdict, at, gap }) {
  const tie = gap == null ? '' : ` (there the target’s two best logits were ${gap.toPrecision(2)} apart)`;
  return {
    same: 'Plain decoding wrote exactly the same text.',
    differs: `Plain decoding differs from token ${at + 1} on${tie}.`,
    sampled: 'Above temperature 0 the baseline is another sample, so speeds are compared per token.',
  }[verdict] || '';
}

// 0.05 → "20× slower than it ran".
function paceSentence(speed) {
  if (speed === 1) return 'real time';
  return speed < 1 ? `slow motion, ${Math.round(1 / speed)}× slower than it ran` : `${speed}× faster than it ran`;
}
