// Lets the learner spend a pass's rows on the drafts of many users. The sums are below, apart from the page.

import { make, makeButton, makeFind } from '../../lib/dom.js';
import { figure, makeNote, makeResult, meter, short, slider } from '../widgets/widgets.js';

const ROWS = 20; // a pass over this many tokens takes as long as one over a single token
const DEEP = 4;
// How likely each draft of a user is to be accepted, if those before it were.
export const SURENESS = [
  [0.95, 0.94, 0.92, 0.9],
  [0.4, 0.3, 0.3, 0.2],
  [0.8, 0.7, 0.6, 0.5],
  [0.9, 0.6, 0.3, 0.2],
  [0.6, 0.6, 0.5, 0.5],
  [0.25, 0.2, 0.2, 0.1],
  [0.98, 0.97, 0.96, 0.95],
  [0.7, 0.5, 0.5, 0.4],
];

// The chance of each draft to be reached and accepted, by user.
export const survivals = kinds =>
  kinds.map(row => row.map((_, i) => row.slice(0, i + 1).reduce((product, each) => product * each, 1)));

// Tokens of all users for each plain step, where user ``i`` has the first ``depths[i]`` drafts tested.
export function tokensAStep(chances, depths) {
  const tokens = chances.reduce((sum, row, i) => sum + 1 + row.slice(0, depths[i]).reduce((a, b) => a + b, 0), 0);
  const rows = depths.reduce((sum, depth) => sum + 1 + depth, 0);
  return tokens / Math.max(1, rows / ROWS);
}

// The best number of drafts that is the same for all.
export function sameForAll(chances) {
  const all = Array.from({ length: DEEP + 1 }, (_, depth) => chances.map(() => depth));
  return all.reduce((best, each) => (tokensAStep(chances, each) > tokensAStep(chances, best) ? each : best));
}

// The surest draft first, of whichever user, as long as it raises the tokens for each plain step. A draft is never
// surer than the one before it, so no chain is left with a gap.
export function surestFirst(chances) {
  const depths = chances.map(() => 0);
  for (;;) {
    const user = chances.reduce(
      (best, row, i) => ((row[depths[i]] ?? 0) > (chances[best][depths[best]] ?? 0) ? i : best),
      0,
    );
    if (depths[user] === DEEP) return depths;
    const more = depths.map((depth, i) => depth + (i === user));
    if (tokensAStep(chances, more) <= tokensAStep(chances, depths)) return depths;
    depths[user]++;
  }
}

const surenessOf = users => Array.from({ length: users }, (_, i) => SURENESS[i % SURENESS.length]);

// Tokens for each plain step with no drafts, with the best γ that is the same for
// all, and with the surest drafts first.
export function ratesOf(users) {
  const chances = survivals(surenessOf(users)),
    same = sameForAll(chances);
  return {
    plain: tokensAStep(
      chances,
      chances.map(() => 0),
    ),
    same: tokensAStep(chances, same),
    surest: tokensAStep(chances, surestFirst(chances)),
    gamma: same[0],
  };
}

export function makeBudget(settings, touched) {
  const users = slider('Users at once', { low: 1, high: 24, step: 1, value: settings.users ?? 8 });
  const list = make('div', 'sl-budget', '', { role: 'group', 'aria-label': 'The drafts of each user' }),
    result = makeResult(),
    bars = Object.fromEntries(['plain', 'same', 'surest', 'mine'].map(name => [name, meter()]));
  const NAMES = { plain: 'no drafts', same: 'one γ for all', surest: 'the surest first', mine: 'your choice' };
  let kinds = [],
    chances = [],
    depths = [];

  function seat() {
    kinds = surenessOf(users.value);
    chances = survivals(kinds);
    depths = kinds.map(() => 0);
    show();
  }
  function take(to) {
    depths = to;
    show();
    touched();
  }
  // A press tests the drafts up to this one; a press on the last one tested takes it back.
  const press = (user, place) => {
    take(depths.map((depth, i) => (i === user ? (depth === place + 1 ? place : place + 1) : depth)));
    makeFind(list)(`[data-card="${user}.${place}"]`)?.focus();
  };

  function show() {
    list.replaceChildren(
      ...kinds.map((row, user) =>
        make('div', 'sl-budget-user', [
          make('span', '', `user ${user + 1}`),
          ...row.map((sure, place) =>
            makeButton(sure.toFixed(2), () => press(user, place), 'sl-button sl-budget-card', {
              'aria-pressed': String(place < depths[user]),
              'aria-label': `User ${user + 1}, draft ${place + 1}: the drafter is ${sure.toFixed(2)} sure`,
              'data-card': `${user}.${place}`,
              '--sure': chances[user][place].toFixed(3),
            }),
          ),
        ]),
      ),
    );
    const { gamma, ...others } = ratesOf(users.value),
      rates = { ...others, mine: tokensAStep(chances, depths) };
    const most = Math.max(...Object.values(rates));
    for (const [name, bar] of Object.entries(bars)) {
      bar.set(name === 'same' ? `${NAMES.same} (γ = ${gamma})` : NAMES[name], rates[name] / most, short(rates[name]));
      bar.row.classList.toggle('sl-meter-p', name === 'mine');
    }
    const rows = depths.reduce((sum, depth) => sum + depth + 1, 0);
    result.textContent = `${rows} of ${ROWS} rows: ${kinds.length} for the users’ own tokens, ${rows - kinds.length} for drafts. ${
      rows > ROWS
        ? `The pass takes ${short(rows / ROWS)} times as long, for everybody.`
        : 'The pass takes no longer than for one token.'
    }`;
    Object.assign(result.dataset, Object.fromEntries(Object.entries(rates).map(([name, x]) => [name, x.toFixed(4)])));
    result.dataset.rows = rows;
  }
  users.row.addEventListener('input', seat);
  const buttons = make('div', 'sl-buttons', [
    makeButton('One γ for all', () => take(sameForAll(chances))),
    makeButton('The surest first', () => take(surestFirst(chances))),
    makeButton('No drafts', () => take(kinds.map(() => 0))),
  ]);
  seat();
  return figure(
    'One budget, many users',
    () => {},
    touched,
    users.row,
    list,
    buttons,
    ...Object.values(bars).map(each => each.row),
    result,
    makeNote(
      `A model, not a measurement: a pass has room for ${ROWS} tokens, and drafts cost nothing to make. A bar shows how many tokens all users get in a plain step. The number on a draft says how sure the drafter is of that guess; the stronger its colour, the likelier it is to count.`,
    ),
  );
}
