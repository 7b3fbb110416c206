// Draws the inspector: the numbers of one token's verdict, from the trace alone.
import { make, makeButton } from '../lib/dom.js';
import { format, press, spoken } from '../lib/format.js';
import { isDrafted, isUnknown, STATUSES } from '../lib/statuses.js';
import { blockNode } from './block.js';
import { chanceNode } from './chance_bar.js';
import { BARS, candidatesNode, FEW_BARS, note } from './distribution_bars.js';
import { ownPart } from './methods.js';
import { probabilitiesOf, rejectedAt, residualRows } from './probabilities.js';
import { removedNode } from './removed.js';
import { canReroll, makeReroll } from './reroll.js';
import { budgetSentence, chanceSentence, quote, tokenSentence } from './sentences.js';
import { siblingsNode, siblingsOf } from './siblings.js';
import { makeTokenChip, markOf } from './token_chip.js';

// ``ask(token)``: the reader wants to inspect this token;
// ``forkOf(token)``: a function that forces a candidate in its place, or a sentence why there is none, or null.
export function makeInspector(box, ask, forkOf = () => null) {
  let token = null,
    round = null,
    about = null,
    stage = null;
  const reroll = makeReroll(keepFocus);
  let isForcing = false; // each candidate has a button that forces it

  function show(nextToken, nextRound, nextAbout, nextStage) {
    if (nextToken !== token) {
      reroll.reset();
      isForcing = false;
    }
    [token, round, about, stage] = [nextToken, nextRound, nextAbout, nextStage];
    draw();
  }

  // ``example``: a rejected draft that a button offers to explain.
  let empty = false,
    offered = null;
  function clear(example = null) {
    token = stage = null;
    if (empty && offered === example) return;
    [empty, offered] = [true, example];
    box.replaceChildren(
      make('p', 'sl-empty-inspector', [
        `${press[0].toUpperCase()}${press.slice(1)} a token, or pause and step, to see the numbers behind its verdict.`,
        make('span', 'sl-controls-hint', ' Change the temperature or γ above to see what they would do.'),
      ]),
    );
    if (example) box.append(makeButton(`Why was ${quote(example)} rejected?`, () => ask(example)));
  }

  function draw() {
    empty = false;
    const judged = stage === token.status,
      parts = [head(), sentence()],
      probabilities = probabilitiesOf(token, round);
    const draft = isDrafted(token);
    if (draft && stage !== 'waiting' && token.accept !== undefined) parts.push(bar(judged));
    if (stage === 'waiting') delete probabilities.p;
    const isReplaced =
      judged && ['rejected', 'resampled'].includes(token.status) && !about?.greedy && token.threshold === undefined;
    const drawn = !isReplaced
      ? null
      : token.status === 'resampled'
        ? token
        : round.tokens.find(other => other.status === 'resampled');
    if (!isReplaced) delete probabilities.residual;
    const isBlock = judged && token.h !== undefined && !about?.greedy,
      fork = judged ? forkOf(token) : null;
    if (isBlock) parts.push(blockNode(round, token, reroll.block));
    const written = round.emitted.find(other => other.position === token.position)?.id;
    const isOther = distribution => distribution?.top.some(([id]) => id !== written);
    const table = [
      token,
      probabilities,
      drawn,
      isBlock ? FEW_BARS : BARS,
      isForcing && typeof fork === 'function' ? fork : null,
      written,
    ];
    if (probabilities.p || probabilities.q) parts.push(candidatesNode(...table));
    if (token.removed && stage !== 'waiting') parts.push(removedNode(token.removed));
    const force =
      typeof fork === 'function' &&
      !isForcing &&
      (isOther(probabilities.p) || isOther(probabilities.q)) &&
      makeButton('Force another token', askWhich);
    if (judged && canReroll(token, round)) parts.push(reroll.node(token, round, force));
    else if (force) parts.push(make('div', 'sl-buttons', [force]));
    if (about?.server) parts.push(...told().map(note));
    else if (about?.greedy && !['forced', 'forbidden'].includes(token.status)) parts.push(note(GREEDY(token)));
    if (draft && !isBlock && stage !== 'waiting' && !about?.greedy && chanceSentence(token))
      parts.push(make('p', 'sl-why', chanceSentence(token)));
    if (judged && siblingsOf(token, round).length > 1) parts.push(siblingsNode(token, round));
    else if (token.sibling) parts.push(note(SIBLING));
    if (token.expected !== undefined && round.row !== undefined)
      parts.push(make('p', 'sl-aside', budgetSentence(token, round)));
    if (draft && about && ownPart(token, round, about)) parts.push(make('p', 'sl-aside', ownPart(token, round, about)));
    if (token.grammar) parts.push(note(DEMANDED));
    if (token.status === 'forced') parts.push(note(SAME_DRAWS));
    if (typeof fork === 'string') parts.push(note(fork));
    if (about?.lean) parts.push(note('Long trace: candidate lists are left out. p, q and u are all there.'));
    if (judged && token.p === undefined && !probabilities.p && !about?.server && token.status !== 'forbidden')
      parts.push(note('This trace was recorded without its numbers.'));
    box.replaceChildren(...parts);
  }

  // ── the token and its verdict ──
  function head() {
    const chip = make('span', '', [...makeTokenChip({ ...token, place: undefined }).childNodes].slice(0, -1));
    chip.className = `sl-token sl-${stage}`;
    if (isUnknown(token)) chip.dataset.unknown = '';
    if (token.grammar) chip.dataset.grammar = '';
    chip.firstChild.textContent = markOf(stage, token.grammar);
    const part =
      token.status === 'forbidden'
        ? 'not scored'
        : isDrafted(token)
          ? `draft ${token.index + 1} of ${round.drafted}`
          : 'closes the round';
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
  function told() {
    const count = `${round.drafted - round.kept} of ${round.drafted} guesses`,
      p =
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
    const known = probabilitiesOf(token, round),
      { rows, total } = residualRows(known),
      { weight, isLeft } = known;
    const part =
      rows.find(row => row.id === token.id)?.share ??
      (total && !isLeft ? (weight * token.p - token.q) / total : undefined);
    return token.u === undefined || !(part > 0)
      ? ''
      : `: u = ${format(token.u)} drew it, with a share of ${spoken(part)}`;
  }

  function bar(judged) {
    const u = reroll.u ?? (judged ? token.u : undefined);
    return chanceNode(token, u, reroll.u !== null, token.h !== undefined && !about?.greedy);
  }

  // Draws again and gives the focus back to the same button, or to the first.
  function keepFocus() {
    const at = reroll.u === null ? 0 : [...box.querySelectorAll('button')].indexOf(document.activeElement);
    draw();
    box.querySelectorAll('button')[at]?.focus({ preventScroll: true });
  }

  function askWhich() {
    isForcing = true;
    draw();
    box.querySelector('.sl-fork')?.focus({ preventScroll: true });
  }

  clear();
  return {
    show,
    clear,
    get stage() {
      return stage;
    },
  };
}

const GREEDY = token => {
  const gap = token.gap === undefined ? '' : ` Its two best tokens were ${format(token.gap)} apart (logits).`;
  const fixed =
    token.accept === undefined
      ? ' So every u draws the same token.'
      : ' So min(1, p/q) is 0 or 1, and no u can change the verdict.';
  return `Temperature 0: the target always takes its first choice, so p is one-hot: 1 for that token, 0 for all others.${fixed}${gap}`;
};
const DEMANDED =
  'The grammar leaves no other text here, so this draft was free. It was tested all the same, because a text can be cut into other tokens.';
const SAME_DRAWS =
  'Both lanes draw the same random numbers at the same places. Drafts may still differ where rounds begin elsewhere.';
const SIBLING =
  'An earlier sibling was rejected here, so its share had been taken away from p before this one was tried.';
