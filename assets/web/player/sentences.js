// Words the sentences about a token, a round and a run. Knows no DOM.
/** @import { Stage } from '../lib/statuses.js' */
/** @import { Compared, Ended } from './lines.d.ts' */
/** @import { Round, Token } from './rounds.d.ts' */
import { format, isolate, quantity, spokenPercent, tokenText, visible } from '../lib/format.js';
import { isUnknown } from '../lib/statuses.js';

const ENDS = {
  eos: 'The model ended its answer',
  stop: 'A stop text was reached',
  length: 'The token limit was reached',
  cancelled: 'Stopped',
  lost: 'The run broke off',
};
const FORBIDDEN = 'The grammar forbids this word here, so the target did not score it. α does not count it.';
/** @param {{ text: string, label?: string, id: number | null }} token */
export const quote = token => `“${isolate(tokenText(token))}”`;

const NEVER = 0.0005; // a chance that is practically 0

/** Compares draft and target in words. Of a sibling p was reduced by those tried before it, so no number is right.
 * @param {Token} token */
function reasonSentence({ p, q, accept, sibling }) {
  const shares =
    p === undefined || q === undefined || sibling ? '' : `: draft ${spokenPercent(q)}, target ${spokenPercent(p)}`;
  const after = sibling ? 'After its rejected siblings it was guessed' : 'Guessed';
  if (accept >= 1) return `${after} no more often than the target would write it${shares}.`;
  if (accept > 1 - NEVER) return `${after} about right${shares}.`;
  return accept < NEVER ? `The target would hardly ever write it here${shares}.` : `${after} too often${shares}.`;
}

/** @param {Token} token */
function verdictSentence(token) {
  const { accept, u, status } = token;
  if (accept === undefined || u === undefined)
    return { accepted: 'Accepted.', rescued: 'Rescued by a later draft.' }[status] ?? 'Rejected.';
  const reason = reasonSentence(token);
  if (accept >= 1) return `${reason} Every u accepts it.`;
  if (accept > 1 - NEVER && u < accept) return `${reason} Nearly every u accepts it.`;
  if (accept < NEVER && u >= accept) return `${reason} Rejected, as nearly every u would.`;
  const isBelow = u < accept;
  return `${reason} The dice (u = ${format(u)}) fell ${isBelow ? 'below' : 'above'} ${format(accept)}: ${isBelow ? 'accepted' : 'rejected'}.`;
}

/** In a block the last draft whose u falls below its h decides about all drafts before it; in a tree, of all branches,
 * the first one from the leaves.
 * @param {Token} token */
function blockSentence({ status, index, u, h, accept, block, isChosen, place }) {
  const against = `u = ${format(u)} was ${u < h ? '' : 'not '}below h = ${format(h)}`,
    last = `draft ${block}`;
  switch (status) {
    case 'rescued':
      return `u = ${format(u)} was not below ${format(accept)}, but ${last} passed: rescued.`;
    case 'rejected':
      return `${against}, nor was any later one${place ? ' of its branch' : ''}: rejected.`;
    case 'discarded':
      return isChosen
        ? 'Not used: the text had ended.'
        : u < h
          ? `Not used: ${last} passed before its turn.`
          : `Not used: ${against}.`;
    default:
      return index + 1 === block
        ? `${against}: accepted, with all before it.`
        : `${against}; ${last} passed: accepted.`;
  }
}

/** Typical acceptance compares p with a threshold; no draw decides. @param {Token} token @param {Stage} stage */
function typicalSentence(token, stage) {
  const { p, threshold, status } = token;
  if (status === 'resampled')
    return 'Drawn from p in place of the rejected draft: typical acceptance takes no residual.';
  const against = `p = ${format(p)} is ${p > threshold ? '' : 'not '}above the threshold ${format(threshold)}`;
  if (stage === 'scored') return `Scored by the target: ${against}.`;
  return status === 'discarded' ? `Never tested: ${whyUntested(token)}. Its ${against}.` : `${against}: ${status}.`;
}

/** @param {Token} token */
const drawnBy = ({ u, p }) =>
  u === undefined || p === undefined
    ? ', drawn from p'
    : `: u = ${format(u)} drew it from p, where it had ${spokenPercent(p)}`;

/** In a tree only one branch is accepted. @param {Token} token */
const toTheEnd = token => (token.place ? 'A branch was accepted to its end' : 'Every draft was accepted');

/** At temperature 0 the target's first choice decides; u has no influence. @param {Token} token */
function greedySentence(token) {
  const first = token.p_top?.top[0];
  switch (token.status) {
    case 'accepted':
      return 'This is the target’s own first choice here, so it is accepted.';
    case 'rejected':
      return first
        ? `The target’s first choice here is “${isolate(visible(first[1]))}”, so this draft is rejected.`
        : 'This is not the target’s first choice here, so it is rejected.';
    case 'resampled':
      return 'The rejected draft makes way for the target’s own first choice.';
    case 'bonus':
      return `${toTheEnd(token)}, so the same target pass gives one more token: its first choice there.`;
    default:
      return 'No draft in this round: one target pass, one token, the target’s first choice.';
  }
}

/** @param {Token} token */
const whyUntested = ({ place, isPastEnd }) =>
  place ? 'the text went another way' : isPastEnd ? 'the text had ended' : 'it came after a rejection';

/** A draft that was not tested, and its chance of being accepted; at temperature 0 without u. @param {Token} token */
function untestedSentence(token, greedy) {
  const { accept } = token,
    untested = `Never tested: ${whyUntested(token)}.`;
  if (accept === undefined) return untested;
  if (greedy)
    return `${untested} ${
      accept
        ? 'It was the target’s first choice there and would have been accepted.'
        : 'It was not the target’s first choice there and would have been rejected.'
    }`;
  return `${untested} ${reasonSentence(token)} It would have been accepted with a u below ${format(accept)}.`;
}

/** Says of a server only what it told, because how it chose a token is not known. @param {Token} token */
function servedSentence(token) {
  const { status, counted, round } = token;
  switch (status) {
    case 'rejected':
      return 'The server rejected this guess.';
    case 'discarded':
      return untestedSentence(token, false);
    case 'accepted':
      return counted
        ? 'The server accepted this guess.'
        : 'It came together with the next token, so it should be an accepted guess.';
    case 'resampled':
      return 'The target’s own token, in place of the rejected guess.';
    case 'bonus':
      return 'Every guess was accepted, so the same pass gave one more token.';
    default:
      return round ? 'No guess in this round: one pass, one token.' : 'The first token: the prompt’s own pass gave it.';
  }
}

/** @param {Token} token @param {Stage} stage */
export function tokenSentence(token, stage, greedy = false) {
  if (stage === 'closing') return 'Ends the round. The server does not say whether a draft was rejected before it.';
  if (isUnknown(token)) return 'The server says how many guesses it rejected, not which words they were.';
  if (stage === 'forbidden') return FORBIDDEN;
  if (stage === 'forced') return 'You forced this token: it was neither drafted nor drawn.';
  if (stage === 'waiting') return 'Guessed by the drafter; the target has not looked at it yet.';
  if (token.counted !== undefined && stage === token.status) return servedSentence(token);
  if (greedy && stage !== 'scored' && token.status !== 'discarded') return greedySentence(token);
  if (token.threshold !== undefined && !greedy) return typicalSentence(token, stage);
  if (stage === 'scored') {
    if (token.accept === undefined) return 'Scored by the target; no verdict yet.';
    if (greedy) return `Scored by the target: this is ${token.accept ? '' : 'not '}its own first choice here.`;
    if (token.h === undefined)
      return `${reasonSentence(token)} It is accepted if u falls below ${format(token.accept)}.`;
    return `Scored by the target: the block may end here if u falls below ${format(token.h)}.`;
  }
  if (token.h !== undefined && token.u !== undefined && !greedy) return blockSentence(token);
  switch (token.status) {
    case 'accepted':
    case 'rescued':
    case 'rejected':
      return verdictSentence(token);
    case 'resampled':
      return 'Drawn from the residual: what p has left where the rejected draft’s q is taken away.';
    case 'bonus':
      return `${toTheEnd(token)}, so the same target pass gives one more token${drawnBy(token)}.`;
    case 'discarded':
      return untestedSentence(token, greedy);
    default:
      return `No draft in this round: one target pass, one token${drawnBy(token)}.`;
  }
}

/** Why a node of a tree was given a row of the target's pass. @param {Token} token @param {Round} round */
export const budgetSentence = ({ expected }, { row }) =>
  `Before the pass its chance to be accepted was put at ${spokenPercent(expected)}. The tree ended there, because a further row would have cost ${format(row)} tokens’ time and no guess left had a chance of ${spokenPercent(row)}.`;

/** A round in one line, for screen readers. @param {Round} round */
export function roundSentence(round) {
  const closing = round.tokens[round.drafts];
  const end = closing ? `${closing.status} ${quote(closing)}` : 'no closing token',
    cut = round.forbidden.length ? `, ${round.forbidden.map(quote).join(' and ')} forbidden` : '';
  if (!round.drafts) return `Round ${round.index + 1}: ${end}${cut}.`;
  const rejected = round.tokens.find(token => token.status === 'rejected');
  const rescued = round.tokens.filter(token => token.status === 'rescued');
  const why =
    (rescued.length ? `, ${rescued.map(quote).join(' and ')} rescued` : '') +
    (rejected ? `, ${isUnknown(rejected) ? round.drafted - round.accepted : quote(rejected)} rejected` : '');
  if (round.counted === false)
    return `Round ${round.index + 1}: ${quantity(round.accepted, 'draft')} accepted, rejected ones unknown, then ${end}.`;
  return `Round ${round.index + 1}: ${round.accepted} of ${quantity(round.drafted, 'draft')} accepted${why}${cut}, then ${end}.`;
}

/** @param {Ended} ended @param {boolean} [isBranch] the tokens before the forced one are not counted */
export function endSentence({ reason, tokens, notes }, isBranch = false) {
  const end = Object.hasOwn(ENDS, reason) ? ENDS[reason] : `The server ended it (${reason})`;
  return `${end} after ${quantity(tokens, isBranch ? 'more token' : 'token')}.${notes ? ` ${notes}` : ''}`;
}

/** @param {Compared} compared */
export function comparedSentence({ verdict, at, gap }) {
  const tie = gap == null ? '' : ` (there the target’s two best logits were ${gap.toPrecision(2)} apart)`;
  return (
    {
      same: 'Plain decoding wrote exactly the same text.',
      'same bits': 'Plain decoding wrote exactly the same text, from scores that are equal to the bit.',
      differs: `Plain decoding differs from token ${at + 1} on${tie}.`,
      sampled: 'Plain decoding drew another sample.',
    }[verdict] || ''
  );
}

/** 0.05 → "20× slower". @param {number} speed */
export function paceSentence(speed) {
  if (speed === 1) return 'real time';
  return speed < 1 ? `${Math.round(1 / speed)}× slower` : `${speed}× faster`;
}
