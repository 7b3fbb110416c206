// Holds the second lane: a branch of the run, from a token that was forced. Knows no DOM.
//
// The forced token is in the row of the round whose token it replaces; the branch's own rounds follow, a row each.
/** @import { Timeline, Token } from './rounds.d.ts' */
import { massOf, probabilitiesOf } from './probabilities.js';
import { makeTimeline, stageOf } from './timeline.js';

/** @param {Timeline} run */
export function makeBranch(run) {
  const timeline = makeTimeline();
  /** @type {Token[]} */
  let kept = []; // the tokens of that round before the forced one
  /** @type {Token | null} */
  let replaced = null; // the one in whose place it was forced
  const branch = {
    timeline,
    begin,
    add,
    clear,
    rowOf,
    tokensIn,
    ownIn,
    stage,
    placeOf,
    on: false,
    key: '',
    ended: null,
    from: 0,
    forced: null,
    version: 0, // changes with all that its rows show
    get rounds() {
      return timeline.rounds;
    },
    get rowCount() {
      return branch.on ? branch.from + 1 + timeline.rounds.length : 0;
    },
  };

  function clear() {
    timeline.clear();
    Object.assign(branch, { on: false, key: '', ended: null, forced: null, version: branch.version + 1 });
  }

  // ``line``: the text before the forced token, that token, and its place in the output. False for the branch there is.
  function begin(line) {
    if (line.key === branch.key) return false;
    clear();
    const round = line.key && run.rounds.find(each => each.emitted.some(token => token.position >= line.place));
    if (!round) return true;
    timeline.begin(line);
    kept = round.emitted.filter(token => token.position < line.place);
    replaced = round.emitted[kept.length];
    const { target: p } = probabilitiesOf(replaced, round);
    const forced = {
      ...line.forced,
      status: 'forced',
      branch: true,
      round: round.index,
      index: 0,
      p_top: p,
      p: massOf(p, line.forced.id).mass,
    };
    Object.assign(branch, { on: true, key: line.key, from: round.index, forced });
    return true;
  }

  function add(round) {
    timeline.add(round);
    for (const token of round.cells) token.branch = true;
    branch.version++;
  }

  function rowOf(token) {
    return token.branch && token !== branch.forced ? branch.from + 1 + token.round : token.round;
  }

  // What the second lane shows in a row.
  function tokensIn(row) {
    if (!branch.on || row < branch.from) return [];
    return row === branch.from ? [...kept, branch.forced] : (timeline.rounds[row - branch.from - 1]?.cells ?? []);
  }

  function ownIn(row) {
    return tokensIn(row).filter(token => token.branch);
  }

  // One clock: the steps of a row count for both lanes. What the branch has beyond the run comes at the run's end.
  function stepIn(row, { index, step }) {
    const isOver = index >= 0 && step >= run.rounds[index].steps;
    if (row > index) return isOver && row >= run.rounds.length ? Infinity : 0;
    return row < index || isOver ? Infinity : step;
  }

  // ``at``: the place in the run.
  function stage(token, at) {
    const step = stepIn(rowOf(token), at);
    if (!step) return 'hidden';
    if (token.branch && token !== branch.forced) return stageOf(timeline.rounds[token.round], token, step);
    const own = token === branch.forced ? replaced : token,
      shown = stageOf(run.rounds[branch.from], own, step);
    return own === token ? shown : shown === own.status ? 'forced' : 'hidden';
  }

  // The place in the branch's own rounds at a place in the run.
  function placeOf(at) {
    const isOver = at.index >= 0 && at.index === run.rounds.length - 1 && at.step >= run.rounds[at.index].steps;
    const index = isOver
      ? timeline.rounds.length - 1
      : Math.min(at.index - branch.from - 1, timeline.rounds.length - 1);
    return { index, step: index < 0 ? 0 : stepIn(branch.from + 1 + index, at) };
  }

  return branch;
}
