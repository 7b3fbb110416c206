// Draws the inspector: the numbers of one token's verdict, from the trace alone.
/** @import { Stage } from '../lib/statuses.js' */
/** @import { About } from './lines.d.ts' */
/** @import { Round, Token } from './rounds.d.ts' */
import { make, makeButton } from '../lib/dom.js';
import { format, isolate, pressVerb, spokenPercent, stepVerb, tokenText } from '../lib/format.js';
import { isDrafted, isUnknown, STATUSES } from '../lib/statuses.js';
import { blockNode } from './block.js';
import { chanceNode } from './chance_bar.js';
import { BARS, candidatesNode, FEW_BARS, note } from './distribution_bars.js';
import { ownPart } from './draft_sentences.js';
import { probabilitiesOf, rejectedAt, residualRows } from './probabilities.js';
import { removedNode } from './removed.js';
import { canReroll, makeReroll } from './reroll.js';
import { budgetSentence, quote, tokenSentence } from './sentences.js';
import { siblingsNode, siblingsOf } from './siblings.js';
import { makeTokenChip, markOf } from './token_chip.js';

/** A function that forces a candidate in a token's place, or a sentence why there is none, or null.
 * @typedef {((id: number) => void) | string | null} Fork */
/** @param {HTMLElement} box @param {(token: Token) => void} ask the reader wants to inspect this token
 * @param {(token: Token) => Fork} forkOf */
export function makeInspector(box, ask, forkOf) {
  /** @type {Token | null} */
  let token = null;
  /** @type {Round | null} */
  let round = null;
  /** @type {About | null} */
  let about = null;
  /** @type {Stage | null} null while no token is shown */
  let stage = null;
  let isForcing = false; // each candidate has a button that forces it
  let isEmpty = false;
  /** @type {Token | null} */
  let offered = null; // a rejected draft that a button offers to explain
  const reroll = makeReroll(keepFocus);

  /** @param {Token} nextToken @param {Round} nextRound @param {About} nextAbout @param {Stage} nextStage */
  function show(nextToken, nextRound, nextAbout, nextStage) {
    if (nextToken !== token) {
      reroll.reset();
      isForcing = false;
    }
    [token, round, about, stage] = [nextToken, nextRound, nextAbout, nextStage];
    draw();
  }

  /** @param {Token | null} [example] */
  function clear(example = null) {
    token = stage = null;
    if (isEmpty && offered === example) return;
    isEmpty = true;
    offered = example;
    box.replaceChildren(
      make('p', 'sl-empty-inspector', [
        `${pressVerb[0].toUpperCase()}${pressVerb.slice(1)} a token, or pause and ${stepVerb}, to see the numbers behind its verdict.`,
        make('span', 'sl-controls-hint', ' Change the temperature or γ above to see what they would do.'),
      ]),
    );
    if (!example) return;
    const word = isolate(tokenText(example).trim());
    box.append(makeButton(`Why was “${word}” rejected?`, () => ask(example)));
  }

  function draw() {
    isEmpty = false;
    const isJudged = stage === token.status;
    const isScored = stage !== 'waiting';
    const isBlock = isJudged && token.h !== undefined && !about?.greedy;
    const fork = isJudged ? forkOf(token) : null;
    const { probabilities, known, drawn } = knownNumbers(isJudged, isScored);
    const written = round.emitted.find(other => other.position === token.position)?.id;
    const hasOthers = known.some(({ top }) => top.some(([id]) => id !== written));
    const canFork = typeof fork === 'function';
    const force = canFork && !isForcing && hasOthers && makeButton('Force another token', askWhich);
    const most = isBlock ? FEW_BARS : BARS;
    const forceCandidate = isForcing && canFork ? fork : null;
    const parts = [
      // from top to bottom
      head(),
      sentence(),
      isDrafted(token) && isScored && token.accept !== undefined && bar(isJudged),
      isBlock && blockNode(round, token, reroll.block),
      known.length > 0 && candidatesNode(token, probabilities, drawn, most, forceCandidate, written),
      isScored && token.removed && removedNode(token.removed),
      isJudged && canReroll(token, round)
        ? reroll.node(token, round, force)
        : force && make('div', 'sl-buttons', [force]),
      ...notes(isJudged, isScored, isBlock),
      typeof fork === 'string' && note(fork),
      about?.lean && note('Long trace: candidate lists are left out. p, q and u are all there.'),
      isJudged && token.p === undefined && !probabilities.p && !about?.server && !isForbidden() && note(BARE),
    ];
    box.replaceChildren(...parts.filter(Boolean));
  }

  const isForbidden = () => token.status === 'forbidden';

  /** Shows what the reader may see of p, q and the residual at this stage, and the token that was drawn from them here.
   * @param {boolean} isJudged @param {boolean} isScored */
  function knownNumbers(isJudged, isScored) {
    const hasResidual = ['rejected', 'resampled'].includes(token.status) && token.threshold === undefined;
    const isReplaced = isJudged && hasResidual && !about?.greedy && !about?.server;
    const closing = isReplaced ? [token, ...round.tokens].find(each => each.status === 'resampled') : null;
    const isDrawnHere = closing && [closing, rejectedAt(closing, round)].includes(token); // not from an elder's residual
    const { p, q, residual, ...rest } = probabilitiesOf(token, round);
    const probabilities = { ...rest, p: isScored ? p : undefined, q, residual: isReplaced ? residual : undefined };
    return { probabilities, known: [probabilities.p, q].filter(Boolean), drawn: isDrawnHere ? closing : null };
  }

  /** @param {boolean} isJudged @param {boolean} isScored @param {boolean} isBlock */
  function notes(isJudged, isScored, isBlock) {
    const isDraft = isDrafted(token);
    return [
      ...(about?.server ? serverNotes().map(note) : []),
      about?.greedy && !about.server && token.status !== 'forced' && !isForbidden() && note(greedyNote(token)),
      isDraft && !isBlock && isScored && !about?.greedy && token.h !== undefined && note(OF_BLOCK),
      isJudged && siblingsOf(token, round).length > 1 ? siblingsNode(token, round) : token.sibling && note(SIBLING),
      token.expected !== undefined && round.row !== undefined && note(budgetSentence(token, round)),
      isDraft && about && paragraph('sl-aside', ownPart(token, round, about)),
      token.grammar && note(DEMANDED),
      token.status === 'forced' && note(SAME_DRAWS),
    ];
  }

  // ── the token and its verdict ──
  function head() {
    const chip = make('span', '', [...makeTokenChip({ ...token, place: undefined }).childNodes].slice(0, -1));
    chip.className = `sl-token sl-${stage}`;
    if (isUnknown(token)) chip.dataset.unknown = '';
    if (token.grammar) chip.dataset.grammar = '';
    chip.firstChild.textContent = markOf(stage, token.grammar);
    let part = 'closes the round';
    if (token.status === 'forbidden') part = 'not scored';
    else if (isDrafted(token)) part = `draft ${token.index + 1} of ${round.drafted}`;
    const where =
      token.status === 'forced'
        ? `in place of round ${round.index + 1}’s`
        : `${token.branch ? 'branch, ' : ''}round ${round.index + 1}, ${part}`;
    return make('p', 'sl-inspected', [
      chip,
      make('strong', '', STATUSES[stage].word),
      make('span', 'sl-where', where, { title: `vocabulary id ${token.id ?? '?'}` }),
    ]);
  }

  // A server tells less; what it leaves out is said.
  function serverNotes() {
    const count = `${round.drafted - round.accepted} of ${round.drafted} guesses`;
    const p =
      token.p === undefined
        ? 'p is unknown: server record --logprobs asks for it.'
        : `p = ${format(token.p)}, before temperature.`;
    const own = isUnknown(token) ? `${count} ${round.rejected ? 'were rejected' : 'came after the end'}.` : p;
    return [own, ...about.server];
  }

  function sentence() {
    const words = make('p', 'sl-verdict', tokenSentence(token, stage, about?.greedy));
    if (token.status === 'resampled' && stage === token.status && !about?.server) {
      const rejected = rejectedAt(token, round);
      if (rejected && (about?.greedy || token.threshold === undefined))
        words.textContent = about?.greedy
          ? `${quote(rejected)} was rejected; the target’s own first choice takes its place.`
          : `${quote(rejected)} was rejected, so this came from the residual${share()}.`;
    }
    return words;
  }

  function share() {
    const known = probabilitiesOf(token, round);
    const { rows, total } = residualRows(known);
    const { weight, isLeft } = known;
    const part =
      rows.find(row => row.id === token.id)?.share ??
      (total && !isLeft ? (weight * token.p - token.q) / total : undefined);
    return token.u === undefined || !(part > 0)
      ? ''
      : `: u = ${format(token.u)} drew it, with a share of ${spokenPercent(part)}`;
  }

  /** @param {boolean} isJudged */
  function bar(isJudged) {
    const u = reroll.u ?? (isJudged ? token.u : undefined);
    return chanceNode(token, u, reroll.u !== null, token.h !== undefined && !about?.greedy);
  }

  // Draws again and gives the focus back to the same button, or to the first.
  function keepFocus() {
    const buttons = () => [...box.querySelectorAll('button')];
    const isFocused = button => button === document.activeElement;
    const at = reroll.u === null ? 0 : buttons().findIndex(isFocused);
    draw();
    buttons()[at]?.focus({ preventScroll: true });
    box.querySelector('.sl-rolled')?.scrollIntoView({ block: 'nearest' });
  }

  function askWhich() {
    isForcing = true;
    draw();
    /** @type {HTMLElement | null} */
    const first = box.querySelector('.sl-fork');
    first?.focus({ preventScroll: true });
  }

  clear();
  return {
    show,
    clear,
    get stage() {
      return stage;
    },
    get offered() {
      return offered;
    },
  };
}

/** @param {Token} token */
function greedyNote(token) {
  const gap = token.gap === undefined ? '' : ` Its two best tokens were ${format(token.gap)} apart (logits).`;
  const fixed =
    token.accept === undefined
      ? ' So every u draws the same token.'
      : ' So min(1, p/q) is 0 or 1, and no u can change the verdict.';
  return `Temperature 0: the target always takes its first choice, so p is one-hot: 1 for that token, 0 for all others.${fixed}${gap}`;
}
/** @param {string} kind @param {string} words */
const paragraph = (kind, words) => words && make('p', kind, words);
const BARE = 'This trace was recorded without its numbers.';
const DEMANDED =
  'The grammar leaves no other text here, so this draft was free. It was tested all the same, because a text can be cut into other tokens.';
const SAME_DRAWS =
  'Both lanes draw the same random numbers at the same places. Drafts may still differ where rounds begin elsewhere.';
const OF_BLOCK = 'The running product is cut at 1; h follows from it and from what p has left after this draft.';
const SIBLING =
  'An earlier sibling was rejected here, so its share had been taken away from p before this one was tried.';
