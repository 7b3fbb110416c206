// Grades a rule that a learner has written, as engine/tools/exactness/rule_exercise.py does: each decision of a recorded
// run, then the law of its output, which is enumerated here, so that no chance is in the verdict. Knows no DOM.

import { numbersFrom } from '../../lib/seeded_numbers.js';
import { isClose, problem, readHoles, readRow } from './rule_expression.js';

// ``names``: what an expression may use. p and q are numbers of the draft in the first hole, and rows in the others;
// ``later`` is the target's p one row later, ``before`` its row one place earlier.
export const HOLES = [
  { name: 'accept', label: 'Accept a draft when u <', names: ['p', 'q', 'u', 'later'] },
  { name: 'rejected', label: 'After a rejection, draw from', names: ['p', 'q'] },
  { name: 'full', label: 'After a full round, draw from', names: ['p', 'q', 'before'] },
];
export const ROUNDS = 10_000;

// How much of [0, 1) passes ``test``: borders are looked for on a grid, then halved down.
function shareOf(test) {
  const GRID = 256;
  let share = 0;
  for (let i = 0; i < GRID; i++) {
    const first = test(i / GRID);
    let low = i / GRID,
      high = (i + 1) / GRID;
    if (test(high - 1e-12) !== first)
      for (let step = 0; step < 40; step++) {
        const middle = (low + high) / 2;
        if (test(middle) === first) low = middle;
        else high = middle;
      }
    else low = high;
    share += first ? low - i / GRID : (i + 1) / GRID - low;
  }
  return share;
}

// The rule of three texts: ``accepts(scope, u)``, ``chance(scope)``, and the rows ``rejected`` and ``full`` of a scope.
// Throws an Error with its ``hole``.
export function readRule(texts, words) {
  const parsed = readHoles(texts, HOLES);
  const hasU = parsed[0].uses.has('u');
  function bound(scope) {
    const value = parsed[0].value(scope);
    if (Array.isArray(value) || Number.isNaN(value)) throw problem(0, 'This must be one number.');
    if (hasU && value !== 0 && value !== 1) throw problem(0, 'Compare u with something, as in u < p.');
    return value;
  }
  const accepts = (scope, u) => (hasU ? bound({ ...scope, u }) === 1 : u < bound(scope));
  const chance = scope => (hasU ? shareOf(u => accepts(scope, u)) : Math.min(1, Math.max(0, bound(scope))));
  const drawFrom = hole => scope => readRow(parsed[hole].value(scope), hole, words, scope);
  return { accept: { accepts, chance }, rejected: drawFrom(1), full: drawFrom(2) };
}

const RIGHT_TEXTS = ['p / q', 'max(p - q, 0)', 'p'];

// What the holes see at draft i of a round: ``p`` and ``q`` by the word before.
function scopesOf({ p, q }, start, drafts) {
  const path = [start, ...drafts];
  return {
    draft: i => ({ p: p[path[i]][drafts[i]], q: q[path[i]][drafts[i]], later: p[path[i + 1]][drafts[i]] }),
    rejected: i => ({ p: p[path[i]], q: q[path[i]] }),
    full: { p: p[path.at(-1)], q: q[path.at(-2)], before: p[path.at(-2)] },
  };
}

const textsOf = (count, length) =>
  length
    ? textsOf(count, length - 1).flatMap(text => Array.from({ length: count }, (_, word) => [...text, word]))
    : [[]];

// The chance of each text of some words, the last one changing fastest.
function lawOf(pair, rule) {
  const count = pair.p.length,
    texts = textsOf(count, pair.length),
    law = texts.map(() => 0);
  for (const drafts of textsOf(count, pair.drafts)) {
    const scopes = scopesOf(pair, pair.start, drafts);
    let reached = drafts.reduce((mass, word, i) => mass * pair.q[i ? drafts[i - 1] : pair.start][word], 1);
    for (let accepted = 0; accepted <= drafts.length; accepted++) {
      const isFull = accepted === drafts.length,
        chance = isFull ? 0 : rule.accept.chance(scopes.draft(accepted)),
        ends = reached * (1 - chance);
      reached *= chance;
      if (!ends) continue;
      const row = isFull ? rule.full(scopes.full) : rule.rejected(scopes.rejected(accepted));
      texts.forEach((text, at) => {
        if (drafts.slice(0, accepted).some((word, i) => word !== text[i])) return;
        const rest = text.slice(accepted + 1).map((word, i) => pair.p[text[accepted + i]][word]);
        law[at] += ends * row[text[accepted]] * rest.reduce((a, b) => a * b, 1);
      });
    }
  }
  return law;
}

// How often each text came in some rounds, and the share of the tested drafts that was accepted.
function drawRounds(pair, rule) {
  const random = numbersFrom(60),
    seen = lawOf(pair, rule).map(() => 0);
  const pick = row => {
    let left = random();
    const word = row.findIndex(x => {
      left -= x;
      return left < 0;
    });
    return word < 0 ? row.findLastIndex(x => x > 0) : word;
  };
  let kept = 0,
    tested = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const drafts = [];
    while (drafts.length < pair.drafts) drafts.push(pick(pair.q[drafts.at(-1) ?? pair.start]));
    const { accepted, row } = verdictOf(rule, scopesOf(pair, pair.start, drafts), drafts, drafts.map(random));
    const text = [...drafts.slice(0, accepted), pick(row)];
    while (text.length < pair.length) text.push(pick(pair.p[text.at(-1)]));
    seen[text.reduce((at, word) => at * pair.p.length + word, 0)]++;
    kept += accepted;
    tested += Math.min(accepted + 1, drafts.length);
  }
  return { seen, alpha: kept / tested };
}

function verdictOf(rule, scopes, drafts, u) {
  const rejected = drafts.findIndex((_, i) => !rule.accept.accepts(scopes.draft(i), u[i]));
  if (rejected < 0) return { accepted: drafts.length, row: rule.full(scopes.full) };
  return { accepted: rejected, row: rule.rejected(scopes.rejected(rejected)) };
}

// { isRight, words } of each decision of the recorded rounds.
function decisionsOf({ words, run }, rule, right) {
  const rowWords = row => row.map((x, i) => `${words[i]} ${x.toFixed(2)}`).join(', ');
  let place = 0;
  return run.rounds.flatMap(([start, drafts, u]) => {
    const scopes = scopesOf(run, start, drafts),
      mine = verdictOf(rule, scopes, drafts, u),
      its = verdictOf(right, scopes, drafts, u);
    const found = drafts.slice(0, Math.min(mine.accepted, its.accepted) + 1).map((word, i) => {
      const [did, does] = [mine, its].map(({ accepted }) => (i < accepted ? 'accept' : 'reject'));
      const { p, q } = scopes.draft(i),
        reason = `p/q = ${(p / q).toFixed(2)} is ${does === 'accept' ? '' : 'not '}above u`;
      const so =
        did === does ? `, and so does the rule, because ${reason}.` : `; the rule ${does}s it, because ${reason}.`;
      return {
        isRight: did === does,
        words: `Token ${place + i + 1}, “${words[word]}”: you ${did}ed it at u = ${u[i].toFixed(2)}${so}`,
      };
    });
    if (mine.accepted === its.accepted) {
      const isRight = isClose(mine.row, its.row),
        after = its.accepted < drafts.length ? 'rejection' : 'full round';
      const so = isRight ? ', and so does the rule.' : `; the rule draws from ${rowWords(its.row)}.`;
      found.push({
        isRight,
        words: `Token ${place + its.accepted + 1}, after the ${after}: you draw from ${rowWords(mine.row)}${so}`,
      });
    }
    place += its.accepted + 1;
    return found;
  });
}

// Mistakes that no program is known for, by hole: an expression with the same law, and the error in it.
const DESCRIBED = [
  [
    ['q', 'What the target thinks of the draft doesn’t count here.'],
    ['min(p, q)', 'min(p, q) is the chance to be drafted and accepted. This word has been drafted already.'],
    ['p * q', 'This word has been drafted already, so its q must not make it rarer once more.'],
    ['p - q', 'Where p and q agree, every draft may be accepted, and a difference accepts none.'],
    ['abs(p - q)', 'Where p and q agree, every draft may be accepted, and a difference accepts none.'],
    ['1 - q / p', 'Where p and q agree, every draft may be accepted, and this accepts none.'],
    ['p / (p + q)', 'Where p and q agree, every draft may be accepted, and this accepts half.'],
    ['1 - q', 'What the target thinks of the draft doesn’t count here.'],
    ['max(p, q)', 'A word that the drafter is sure of is accepted here, whatever the target thinks of it.'],
  ],
  [
    ['p + q', 'Words that q offers too often come back.'],
    ['max(p, q)', 'Words that q offers too often come back.'],
    ['p * q', 'Words that both offer have come out as drafts already. What is still missing?'],
    ['p / q', 'A ratio tells who offers a word more often, but not how much of it is missing.'],
    ['q / p', 'This is the wrong way round: words come back that q offers too often.'],
    ['1 - p', 'This favours words that the target doesn’t want.'],
    ['1 - q', 'What the target wants doesn’t count here.'],
  ],
  [],
];
const IN_GENERAL = [
  'It isn’t the chance by which drafts from q come out as often as p wants.',
  'It isn’t what is still missing at this place.',
  'No draft is tested at this place, so the target alone decides.',
];
function describe(pair, hole, law) {
  const isSame = ([text]) => isClose(lawOf(pair, readRule(RIGHT_TEXTS.with(hole, text), [])), law);
  return DESCRIBED[hole].find(isSame)?.[1] ?? IN_GENERAL[hole];
}

// Words the error in a hole, and the numbers where it is furthest from the right rule.
function wordsOn({ words, pair }, { hole, law }, rule, right) {
  const places = textsOf(pair.p.length, pair.drafts).flatMap(drafts => {
    const scopes = scopesOf(pair, pair.start, drafts);
    return hole === 2 ? [scopes.full] : drafts.map((_, i) => (hole ? scopes.rejected(i) : scopes.draft(i)));
  });
  const { name } = HOLES[hole],
    sharesOf = (each, scope) => (hole ? each[name](scope) : [each[name].chance(scope)]);
  const [{ scope, word, mine, its }] = places
    .flatMap(scope => {
      const others = sharesOf(right, scope);
      return sharesOf(rule, scope).map((mine, word) => ({ scope, word, mine, its: others[word] }));
    })
    .sort((a, b) => Math.abs(b.mine - b.its) - Math.abs(a.mine - a.its));
  const [often, wanted] = [mine, its].map(share => Math.round(100 * share));
  const what = describe(pair, hole, law);
  if (!hole)
    return `${what} With p = ${scope.p.toFixed(2)} and q = ${scope.q.toFixed(2)} it accepts ${often} of 100 drafts, the rule ${wanted}.`;
  const row = shares => shares.map((x, i) => `${words[i]} ${x.toFixed(2)}`).join(', ');
  const q = hole === 1 ? ` and q = (${row(scope.q)})` : '';
  return `${what} With p = (${row(scope.p)})${q} it draws “${words[word]}” ${often} times in 100, the rule ${wanted}.`;
}

// ``exercise``: words, the recorded run, a pair whose law is counted, and the known mistakes with their laws. A rule is
// "right", "lossless" in another way, or "wrong", with the mistake of each hole: ``known``, or null for one without a
// name, described in ``words``. ``most``: the text whose chance is furthest from the target's.
export function gradeRule(exercise, texts) {
  const { words, pair, known } = exercise;
  const rule = readRule(texts, words),
    right = readRule(RIGHT_TEXTS, words),
    wanted = lawOf(pair, right),
    law = lawOf(pair, rule);
  const holes = HOLES.map(({ name }) => lawOf(pair, { ...right, [name]: rule[name] }));
  const mistakes = holes
    .map((each, hole) => ({ hole, law: each, known: known.find(mistake => isClose(mistake.law, each)) ?? null }))
    .filter(each => !isClose(each.law, wanted))
    .map(each => ({ ...each, words: each.known ? '' : wordsOn(exercise, each, rule, right) }));
  const isLossless = isClose(law, wanted),
    { seen, alpha } = drawRounds(pair, rule);
  const differences = seen.map((count, at) => Math.abs((isLossless ? count / ROUNDS : law[at]) - wanted[at]));
  const at = differences.indexOf(Math.max(...differences));
  return {
    verdict: isLossless ? (mistakes.length ? 'lossless' : 'right') : 'wrong',
    decisions: decisionsOf(exercise, rule, right),
    mistakes,
    most: {
      text: textsOf(words.length, pair.length)
        [at].map(word => words[word])
        .join(' '),
      seen: seen[at],
      wanted: Math.round(ROUNDS * wanted[at]),
    },
    alpha,
    rightAlpha: drawRounds(pair, right).alpha,
  };
}
