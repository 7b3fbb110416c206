// Draws the inspector: the numbers of one token's verdict, from the trace alone.
import { make, makeButton } from '../lib/dom.js';
import { format, isolated, percent, press, ratioPart, shown, spoken, visible } from '../lib/format.js';
import { isDrafted, isUnknown, STATUSES } from '../lib/statuses.js';
import { blockNode, blockRollSentence, rollBlock } from './block.js';
import { BARS, candidatesNode, FEW_BARS, note } from './distribution_bars.js';
import { ownPart } from './methods.js';
import { drawFrom, keptShare, probabilitiesOf, rejectedAt, residualRows } from './probabilities.js';
import { budgetSentence, chanceSentence, quote, tokenSentence } from './sentences.js';
import { siblingsNode, siblingsOf } from './siblings.js';
import { firstToPass, isOnPath } from './timeline.js';
import { makeTokenChip } from './token_chip.js';

// ``ask(token)``: the reader wants to inspect this token;
// ``forkOf(token)``: a function that forces a candidate in its place, or a sentence why there is none, or null.
export function makeInspector(box, ask, forkOf = () => null) {
  let token = null,
    round = null,
    about = null,
    stage = null;
  let rolled = null,
    tally = null; // a u drawn anew, and how often it was accepted
  let rolledBlock = null; // of a block, the u of every draft
  let isForcing = false; // each candidate has a button that forces it

  function show(nextToken, nextRound, nextAbout, nextStage) {
    if (nextToken !== token) {
      rolled = tally = rolledBlock = null;
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
    if (draft && stage !== 'waiting' && token.accept !== undefined) parts.push(bar());
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
    if (isBlock) parts.push(blockNode(round, token, rolledBlock));
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
    const force =
      typeof fork === 'function' &&
      !isForcing &&
      (isOther(probabilities.p) || isOther(probabilities.q)) &&
      makeButton('Force another token', askWhich);
    if (judged && canRoll()) parts.push(rolling(force));
    else if (force) parts.push(make('div', 'sl-buttons', [force]));
    if (about?.server) parts.push(...told().map(note));
    else if (about?.greedy && token.status !== 'forced') parts.push(note(GREEDY(token)));
    if (draft && !isBlock && stage !== 'waiting' && !about?.greedy && chanceSentence(token))
      parts.push(make('p', 'sl-why', chanceSentence(token)));
    if (judged && siblingsOf(token, round).length > 1) parts.push(siblingsNode(token, round));
    else if (token.sibling) parts.push(note(SIBLING));
    if (token.expected !== undefined && round.row !== undefined)
      parts.push(make('p', 'sl-aside', budgetSentence(token, round)));
    if (draft && about && ownPart(token, round, about)) parts.push(make('p', 'sl-aside', ownPart(token, round, about)));
    if (token.status === 'forced') parts.push(note(SAME_DRAWS));
    if (typeof fork === 'string') parts.push(note(fork));
    if (about?.lean) parts.push(note('Long trace: candidate lists are left out. p, q and u are all there.'));
    if (judged && token.p === undefined && !probabilities.p && !about?.server)
      parts.push(note('This trace was recorded without its numbers.'));
    box.replaceChildren(...parts);
  }

  // ── the token and its verdict ──
  function head() {
    const chip = make('span', '', [...makeTokenChip({ ...token, place: undefined }).childNodes].slice(0, -1));
    chip.className = `sl-token sl-${stage}`;
    if (isUnknown(token)) chip.dataset.unknown = '';
    chip.firstChild.textContent = STATUSES[stage].mark;
    const drafted = isDrafted(token) ? `draft ${token.index + 1} of ${round.drafted}` : 'closes the round';
    const where =
      token.status === 'forced'
        ? `in place of round ${round.index + 1}’s`
        : `${token.branch ? 'branch, ' : ''}round ${round.index + 1}, ${drafted}`;
    return make('p', 'sl-inspected', [
      chip,
      make('strong', '', STATUSES[stage].word),
      make('span', 'sl-where', where, { title: `vocabulary id ${token.id ?? '?'}` }),
    ]);
  }

  // A server tells less; what it leaves out is said.
  function told() {
    const lost = isUnknown(token) && `Rejected: ${round.drafted - round.kept} of ${round.drafted} guesses.`;
    return [lost, token.p !== undefined && `p = ${format(token.p)}, before temperature.`, ...about.server].filter(
      Boolean,
    );
  }

  function sentence() {
    const words = make('p', 'sl-verdict', tokenSentence(token, stage, about?.greedy));
    if (token.status === 'resampled' && stage === token.status) {
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

  // ── min(1, p/q) or the h of a block from 0 to 1, and where u fell ──
  function bar() {
    const u = rolled ?? (stage === token.status ? token.u : undefined),
      isBlock = token.h !== undefined && !about?.greedy;
    const below = isBlock ? token.h : token.accept,
      [passes, fails] = isBlock ? ['passes', 'fails'] : ['accepted', 'rejected'];
    const exact = make('p', u > 0.5 ? 'sl-formula sl-aside-u' : 'sl-formula', [
      isBlock ? 'h = ' : 'min(1, p/q) = ',
      make('strong', '', format(below)),
    ]);
    if (!token.sibling && !isBlock)
      exact.lastChild.before(make('span', '', `min(1, ${ratioPart(token.p)} / ${ratioPart(token.q)}) = `));
    const word = (share, text) => (share >= 0.2 ? text : ''),
      spoken = u === undefined ? '' : `; u is ${format(u)}`;
    const track = make(
      'div',
      'sl-chance',
      [
        make('span', 'sl-part-accepted', word(below, passes)),
        make('span', 'sl-part-rejected', word(1 - below, fails)),
        rolled !== null && token.u !== undefined && make('i', 'sl-tick sl-recorded', '', { '--u': token.u }),
        u !== undefined &&
          make('i', 'sl-tick', [make('b', u > 0.5 ? 'sl-left' : '', `u = ${format(u)}`)], { '--u': u }),
      ],
      {
        '--accept': below,
        role: 'img',
        'aria-label': `${isBlock ? 'Passes' : 'Accepted'} below ${format(below)}${spoken}`,
      },
    );
    return make('div', 'sl-accept', [
      exact,
      track,
      make(
        'div',
        'sl-scale',
        ['0', '0.5', '1'].map(text => make('span', '', text)),
      ),
    ]);
  }

  // ── another u, with p and q held fixed ──
  const closing = () => !isDrafted(token);
  const source = () => {
    const { p, residual } = probabilitiesOf(token, round);
    return token.status === 'resampled' ? residual : p;
  };
  function canRoll() {
    if (token.u === undefined) return false;
    return closing() ? Boolean(source()) : token.accept !== undefined;
  }

  function roll(times) {
    tally ||= { times: 0, accepted: 0, tokens: new Map() };
    for (let i = 0; i < times; i++) {
      rolled = Math.random();
      tally.times++;
      if (closing()) {
        const drawn = drawFrom(source(), rolled);
        const name = drawn ? visible(drawn[1]) : null;
        tally.tokens.set(name, (tally.tokens.get(name) || 0) + 1);
      } else if (token.h !== undefined) {
        rolledBlock = rollBlock(round);
        rolled = rolledBlock[token.index];
        if (isOnPath(round, token.index, firstToPass(round, rolledBlock))) tally.accepted++;
      } else if (rolled < token.accept) tally.accepted++;
    }
    keepFocus();
  }

  // Draws again and gives the focus back to the same button, or to the first.
  function keepFocus() {
    const at = rolled === null ? 0 : [...box.querySelectorAll('button')].indexOf(document.activeElement);
    draw();
    box.querySelectorAll('button')[at]?.focus({ preventScroll: true });
  }

  function askWhich() {
    isForcing = true;
    draw();
    box.querySelector('.sl-fork')?.focus({ preventScroll: true });
  }

  function rolling(force) {
    const back =
      rolled !== null &&
      makeButton('Back to the recorded u', () => {
        rolled = tally = rolledBlock = null;
        keepFocus();
      });
    const words =
      rolled === null
        ? ''
        : closing()
          ? rolledClosing()
          : rolledBlock
            ? blockRollSentence(round, token, rolledBlock, tally)
            : rolledDraft();
    return make('div', 'sl-roll', [
      make('div', 'sl-buttons', [
        makeButton('Re-roll u', () => roll(1), 'sl-button', {
          title: 'p and q stay as they are; only the dice are thrown again.',
        }),
        rolled !== null && makeButton('100 times', () => roll(100)),
        back,
        force,
      ]),
      make('p', 'sl-rolled', words, { 'aria-live': 'polite' }),
    ]);
  }

  function rolledDraft() {
    const isAccepted = rolled < token.accept,
      flipped = isAccepted !== (token.status === 'accepted');
    let words = isAccepted
      ? `u = ${format(rolled)} is below ${format(token.accept)}: it would be accepted.`
      : `u = ${format(rolled)} is not below ${format(token.accept)}: it would be rejected.`;
    words += flipped ? ' The verdict flips.' : ' The same verdict.';
    const residual = probabilitiesOf(token, round).residual;
    if (!isAccepted && flipped && residual) {
      const drawn = drawFrom(residual, Math.random());
      words += drawn
        ? ` Its replacement, drawn from the residual: “${isolated(visible(drawn[1]))}”.`
        : ` Its replacement would be one of the tokens the trace did not keep (${percent(residual.rest)} of the residual).`;
    }
    if (flipped) words += ' What would follow needs the models, so it is not shown.';
    return `${words} So far ${tally.accepted} of ${tally.times} accepted; expected ${spoken(token.accept)}.`;
  }

  function rolledClosing() {
    const drawn = drawFrom(source(), rolled);
    const words = drawn
      ? `This time: “${isolated(visible(drawn[1]))}”.`
      : 'This time: a token that the trace did not keep.';
    const { top, rest } = source(),
      own = visible(shown(token)),
      all = top.reduce((sum, [, , mass]) => sum + mass, rest);
    const expected = name =>
      name === null
        ? rest
        : top.filter(([, text]) => visible(text) === name).reduce((sum, [, , mass]) => sum + mass, 0);
    const often = [...tally.tokens]
      .sort((a, b) => (b[0] === own) - (a[0] === own) || b[1] - a[1])
      .slice(0, 3)
      .map(
        ([name, times]) =>
          `${name === null ? 'others' : `“${isolated(name)}”`} ${times} (${spoken(expected(name) / all)} expected)`,
      )
      .join(', ');
    return (
      `${words} Of ${tally.times}: ${often}. The trace keeps ${source().top.length} of the possible tokens ` +
      `(${percent(keptShare(source()))} of the mass); the rest is one lot here.`
    );
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
const SAME_DRAWS =
  'Both lanes have the same draws at the same places. Drafts may still differ where rounds begin elsewhere.';
const SIBLING =
  'An earlier sibling was rejected here, so its share had been taken away from p before this one was tried.';
