// Holds the rounds received so far and counts the steps of each. Knows no DOM.
//
// A round with N drafts has N + 1 + tested + closing steps: the drafts one by one, the target's scores all at once, the
// verdicts from left to right, the token that closes it. A plain round is one step.
/** @import { Prefix } from './lines.d.ts' */
/** @import { Forbidden, Place, Round, Timeline, Token } from './rounds.d.ts' */
import { lastWhere } from '../lib/search.js';
import { isDrafted, isEmitted, isTested } from '../lib/statuses.js';

/** Where the drafts of a tree are drawn: the column is their depth. The first child goes on in its parent's row, every
 * other begins a row of its own, ``up`` rows below its parent's.
 * @param {number[]} parents 0 is the pending token, i draft i − 1 */
function placesOf(parents) {
  const children = [[]];
  /** @type {Place[]} */
  const places = [];
  for (const [i, parent] of parents.entries()) {
    children[parent].push(i + 1);
    children.push([]);
  }
  let last = 0;
  function placeChildren(node, depth, row) {
    for (const [nth, child] of children[node].entries()) {
      const own = nth ? ++last : row;
      places[child - 1] = { depth: depth + 1, row: own, up: own - row };
      placeChildren(child, depth + 1, own);
    }
  }
  placeChildren(0, 0, 0);
  return places;
}

/** The closing token has a column of its own, in the row of the draft it follows. Forbidden drafts come after their
 * siblings.
 * @param {Round} round */
function placeTree(round) {
  const places = placesOf([...round.parents, ...round.forbidden.map(draft => draft.parent)]),
    drafts = round.tokens.slice(0, round.parents.length);
  const column = Math.max(...places.map(place => place.depth)) + 1;
  const followed = drafts.findLastIndex(isEmitted);
  /** @type {Place} */
  const closing = { depth: column, row: followed < 0 ? 0 : places[followed].row, up: 0, closes: true };
  round.cells.forEach((token, i) => {
    token.place = places[i] ?? closing;
  });
  for (const [i, token] of drafts.entries()) {
    const siblings = drafts.filter((other, j) => round.parents[j] === round.parents[i] && isTested(other));
    if (isTested(token) && siblings.length > 1)
      token.place.among = siblings.indexOf(token) === 0 ? 'first' : siblings.at(-1) === token ? 'last' : 'middle';
  }
}

/** Forbidden drafts stay apart from the tokens of the round, because they were not scored. Each shows the target’s
 * numbers from the token that was tested in its place.
 * @param {Round} round */
function addForbidden(round) {
  const { tokens, drafted, parents = tokens.slice(0, drafted).map((_, i) => i) } = round; // a chain's
  // The node before the closing token.
  const closed = tokens.findLastIndex((token, i) => i < drafted && isEmitted(token)) + 1;
  const testedAt = node => tokens.find((_, i) => (parents[i] ?? closed) === node);
  round.forbidden = (round.forbidden ?? []).map(draft => {
    const { p_top, removed } = testedAt(draft.parent) ?? {};
    return { ...draft, status: 'forbidden', round: round.index, index: -1, isPastEnd: false, p_top, removed };
  });
  const isTree = round.forbidden.length > 1 || round.forbidden[0]?.parent < drafted; // also one that was cut to a chain
  if (drafted && isTree) round.parents ??= parents;
  round.cells = [...tokens.slice(0, drafted), ...round.forbidden, ...tokens.slice(drafted)];
}

/** The drafts in the order they are tried when they are decided on together: from the leaves to the root, so of a chain
 * the last one first.
 * @param {number[] | undefined} parents @param {number} drafts */
function fromTheLeaves(parents, drafts) {
  const children = Array.from({ length: drafts + 1 }, () => []);
  const order = [];
  for (let i = 0; i < drafts; i++) children[parents ? parents[i] : i].push(i);
  (function visit(node) {
    for (const i of children[node]) {
      visit(i + 1);
      order.push(i);
    }
  })(0);
  return order;
}
/** The number of the draft that decides with these uniforms, 0 if none passes.
 * @param {Round} round @param {number[]} us */
export const firstToPass = (round, us) => (round.tried.find(i => us[i] < round.tokens[i].h) ?? -1) + 1;
/** Whether a draft is on the path of draft ``last``. @param {Round} round @param {number} index @param {number} last */
export function isOnPath(round, index, last) {
  for (let node = last; node; node = round.parents ? round.parents[node - 1] : node - 1)
    if (node === index + 1) return true;
  return false;
}

const NOTHING_YET = { rounds: [], about: {}, ended: null, compared: null, prefix: 0, forced: 0 };

export function makeTimeline() {
  /** @type {string} */
  let text; // of all rounds
  /** @type {number[]} */
  let stepsBefore; // each round, with one more entry: all
  /** @type {number[]} */
  let tokensBefore;
  /** @type {Timeline} */
  const timeline = {
    ...NOTHING_YET,
    clear,
    begin,
    add,
    locate,
    get steps() {
      return stepsBefore.at(-1);
    },
    textFrom: (from, to) => text.slice(from, to),
    tokensBefore: index => tokensBefore[index],
    startOf: index => stepsBefore[Math.max(0, Math.min(index, timeline.rounds.length))],
  };

  function clear() {
    Object.assign(timeline, NOTHING_YET, { rounds: [], about: {} });
    [text, stepsBefore, tokensBefore] = ['', [0], [0]];
  }
  clear();

  /** The output begins with text that no round has written; the ``forced`` token is the last of it.
   * @param {Prefix} line */
  function begin({ text: before, forced }) {
    text = before + forced.text;
    Object.assign(timeline, { prefix: text.length, forced: forced.text.length });
  }

  /** Counts once, so that a step costs no more in a long trace than in a short one. @param {Round} round */
  function add(round) {
    const drafts = round.tokens.filter(isDrafted).length;
    const tested = round.tokens.filter(isTested).length;
    const steps = (drafts ? drafts + 1 + tested : 0) + (round.tokens.length - drafts);
    const rejected = round.tokens.find(token => token.status === 'rejected');
    const last = timeline.rounds.at(-1);
    let order = 0;
    round.tokens.forEach((token, index) => {
      token.round = round.index;
      token.index = index;
      token.counted = round.counted; // of a server: whether it counted its drafts
      if (isTested(token)) token.order = ++order; // when its verdict comes
      token.isPastEnd = token.status === 'discarded' && !rejected;
    });
    const emitted = round.tokens.filter(isEmitted);
    round.tried = fromTheLeaves(round.parents, drafts);
    const block = firstToPass(
      round,
      round.tokens.map(token => token.u),
    ); // the draft that decides
    for (const token of round.tokens) {
      if (token.h !== undefined) Object.assign(token, { block, isChosen: isOnPath(round, token.index, block) });
    }
    addForbidden(round);
    if (round.parents) placeTree(round);
    Object.assign(round, { drafts, tested, steps: Math.max(1, steps), emitted, rejected });
    round.rejectedBefore = last && (last.rejected ?? last.rejectedBefore);
    round.lastTree = round.parents ? round.index : (last?.lastTree ?? -1); // the round that drafted one, up to this
    round.offset = text.length; // where its text begins
    text += emitted.map(token => token.text).join('');
    timeline.rounds.push(round);
    stepsBefore.push(stepsBefore.at(-1) + round.steps);
    tokensBefore.push(tokensBefore.at(-1) + emitted.length);
  }

  // After ``at`` steps: the index of the round under way, and the steps done in it.
  function locate(at) {
    if (at <= 0) return { index: -1, step: 0 };
    const index = lastWhere(timeline.rounds.length, i => stepsBefore[i] < at);
    return { index, step: at - stepsBefore[index] };
  }

  return timeline;
}

/** A token's stage after ``step`` steps of its round: hidden, waiting (drafted), scored, or its status.
 * @param {Round} round @param {Token | Forbidden} token @param {number} step */
export function stageOf(round, token, step) {
  const { drafts, tested } = round;
  if (token.status === 'forbidden') return step > drafts ? token.status : 'hidden'; // it is cut off before the scores
  if (!drafts) return step > token.index ? token.status : 'hidden';
  if (token.index >= drafts) return step > drafts + 1 + tested + token.index - drafts ? token.status : 'hidden';
  if (step <= token.index) return 'hidden';
  if (step <= drafts) return 'waiting';
  const verdicts = step - drafts - 1;
  if (token.order) return verdicts >= token.order ? token.status : 'scored';
  return verdicts >= tested ? token.status : 'scored'; // discarded: known once the last verdict is
}

/** The token of a step: the newest draft, the newest verdict, or the closing token.
 * @param {Round} round @param {number} step */
export function currentOf(round, step) {
  const { drafts, tested, tokens } = round;
  if (!drafts) return tokens[Math.min(step, tokens.length) - 1];
  if (step <= drafts) return tokens[step - 1];
  if (step === drafts + 1) return tokens[0];
  const verdict = step - drafts - 1;
  if (verdict <= tested) return tokens.find(token => token.order === verdict);
  return tokens[drafts + verdict - tested - 1] || tokens.at(-1);
}
