// The tape: the rounds received so far, and in how many steps each is told. Knows no DOM.
//
// A round with N drafts is told in N + 1 + tested + closing steps: the drafts one by one, the target's scores all at
// once, the verdicts from left to right, the token that closes it. A plain round is one step.

const DRAFTED = ['accepted', 'rejected', 'discarded'];
const TESTED = ['accepted', 'rejected'];

// Where the drafts of a tree stand: their depth, and their lane. The first child goes on in its parent's lane, every
// other begins a lane of its own, ``up`` lanes below its parent's. ``parents``: 0 is the pending token, i draft i − 1.
function branches(parents) {
  const children = [[]], places = [];
  for (const [i, parent] of parents.entries()) { children[parent].push(i + 1); children.push([]); }
  let last = 0;
  function walk(node, depth, lane) {
    for (const [nth, child] of children[node].entries()) {
      const own = nth ? ++last : lane;
      places[child - 1] = { depth: depth + 1, lane: own, up: own - lane };
      walk(child, depth + 1, own);
    }
  }
  walk(0, 0, 0);
  return places;
}

// The closing token has a column of its own, in the lane of the draft it follows.
function placeTree(round) {
  const places = branches(round.parents), drafts = round.tokens.slice(0, places.length);
  const column = Math.max(...places.map(place => place.depth)) + 1;
  const followed = drafts.findLastIndex(token => token.status === 'accepted');
  const closing = { depth: column, lane: followed < 0 ? 0 : places[followed].lane, up: 0, closes: true };
  round.tokens.forEach((token, i) => { token.place = places[i] ?? closing; });
}

function makeTape() {
  // first[i]: steps before round i, the last entry being the number of all steps; whole: the text of all rounds
  let rounds, first, whole, about, ended, compared;

  function clear() { rounds = []; first = [0]; whole = ''; about = {}; ended = compared = null; }
  clear();

  // What can be counted once is counted here, so that a step costs no more in a long trace than in a short one.
  function add(round) {
    const drafts = round.tokens.filter(token => DRAFTED.includes(token.status)).length;
    const tested = round.tokens.filter(token => TESTED.includes(token.status)).length;
    const steps = (drafts ? drafts + 1 + tested : 0) + (round.tokens.length - drafts);
    let order = 0;
    round.tokens.forEach((token, index) => {
      token.round = round.index;
      token.index = index;
      if (TESTED.includes(token.status)) token.order = ++order;    // when its verdict comes
    });
    const emitted = round.tokens.filter(token => !['rejected', 'discarded'].includes(token.status));
    if (round.parents) placeTree(round);
    Object.assign(round, { drafts, tested, steps: Math.max(1, steps), emitted });
    round.offset = whole.length;                                 // where its text begins
    whole += emitted.map(token => token.text).join('');
    rounds.push(round);
    first.push(first.at(-1) + round.steps);
  }

  // After ``at`` steps: which round is being told, and how far it is.
  function locate(at) {
    let low = 0, high = rounds.length;           // the last round with first < at
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (first[middle] < at) low = middle; else high = middle;
    }
    return { index: at > 0 ? low : -1, step: at > 0 ? at - first[low] : 0 };
  }

  return {
    clear, add, locate,
    get rounds() { return rounds; },
    get about() { return about; },
    set about(value) { about = value; },
    get ended() { return ended; },
    set ended(value) { ended = value; },
    get compared() { return compared; },
    set compared(value) { compared = value; },
    get steps() { return first.at(-1); },
    textFrom: (from, to) => whole.slice(from, to),
    startOf: index => first[Math.max(0, Math.min(index, rounds.length))],
  };
}

// How a token looks after ``step`` steps of its round: hidden, waiting (drafted), scored, or its verdict.
function stageOf(round, token, step) {
  const { drafts, tested } = round;
  if (!drafts) return step > token.index ? token.status : 'hidden';
  if (token.index >= drafts) return step > drafts + 1 + tested + token.index - drafts ? token.status : 'hidden';
  if (step <= token.index) return 'hidden';
  if (step <= drafts) return 'waiting';
  const verdicts = step - drafts - 1;
  if (token.order) return verdicts >= token.order ? token.status : 'scored';
  return verdicts >= tested ? token.status : 'scored';    // discarded: known once the last verdict is
}

// The token that a step is about: the newest draft, the newest verdict, or the closing token.
function currentOf(round, step) {
  const { drafts, tested, tokens } = round;
  if (!drafts) return tokens[Math.min(step, tokens.length) - 1];
  if (step <= drafts) return tokens[step - 1];
  if (step === drafts + 1) return tokens[0];
  const verdict = step - drafts - 1;
  if (verdict <= tested) return tokens.find(token => token.order === verdict);
  return tokens[drafts + verdict - tested - 1] || tokens.at(-1);
}
