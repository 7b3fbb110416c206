// Grows a token tree by hand: expected tokens against the cost of its rows. The
// formulas are below, apart from the page.

import { make, makeButton } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { interpolate } from '../../lib/speedup_model.js';
import { makeCurveChoice, rest } from '../widgets/curve_choice.js';
import { figure, makeResult, short, slider } from '../widgets/widgets.js';

// The chance that the child of this rank is the one accepted for its place, given its parent was accepted.
const rankChance = (rank, first, second) => (rank === 0 ? first : (1 - first) * (1 - second) ** (rank - 1) * second);

// Each word with its ``reach``: the chance that it becomes part of the text.
function* walkTree(node, first, second, reach = 1) {
  for (const [rank, child] of node.entries()) {
    const own = reach * rankChance(rank, first, second);
    yield { child, reach: own };
    yield* walkTree(child, first, second, own);
  }
}

// ``row``: the cost of each row after the first, or costs by width.
export function worth(tree, first, second, row) {
  const words = [...walkTree(tree, first, second)];
  const tokens = 1 + words.reduce((sum, { reach }) => sum + reach, 0); // and the closing token
  return { words: words.length, tokens, speedup: tokens / passCost(words.length, row) };
}

const passCost = (words, row) => (typeof row === 'number' ? 1 + row * words : interpolate(row, words + 1));

// Adds the likeliest word again and again, and keeps those up to the fastest round: a wider pass may be as cheap as a
// narrower one. No other shape of as many words is accepted more often.
export function bestTree(first, second, row, most) {
  const tree = [];
  const open = [{ into: tree, rank: 0, reach: 1 }],
    added = [];
  let [best, speed] = [0, worth(tree, first, second, row).speedup];
  const chance = place => place.reach * rankChance(place.rank, first, second);
  while (added.length < most) {
    const place = open.reduce((a, b) => (chance(b) > chance(a) ? b : a));
    const child = [];
    const reach = chance(place);
    place.into.push(child);
    added.push(place.into);
    const { speedup } = worth(tree, first, second, row);
    if (speedup > speed) [best, speed] = [added.length, speedup];
    place.rank++;
    open.push({ into: child, rank: 0, reach });
  }
  for (const into of added.slice(best).reverse()) into.pop();
  return tree;
}

export function makeGrowTree(settings, touched) {
  const MOST = 15,
    MOST_DEEP = 6;
  const first = slider('First guess for a place is accepted', {
    low: 0,
    high: 0.95,
    step: 0.05,
    value: settings.first,
  });
  const second = slider('If the earlier guesses were wrong, the next one is right', {
    low: 0,
    high: 0.95,
    step: 0.05,
    value: settings.second,
  });
  const row = slider('Cost of a row, in plain steps', { low: 0, high: 0.4, step: 0.01, value: 0.05 });
  const picture = make('div', 'sl-grow', '', { role: 'group', 'aria-label': 'The tree' }),
    result = makeResult();
  const choice = makeCurveChoice('as set below', () => redraw());
  const rowCost = () => choice.curve?.round ?? row.value;
  const added = [];
  let tree = [];

  function redraw(focus) {
    const last = [];
    picture.replaceChildren(branch(tree, 1, 0, last));
    const now = worth(tree, first.value, second.value, rowCost());
    rest([row.row], choice.curve !== null);
    result.textContent = `${quantity(now.tokens, 'token', short(now.tokens))} expected from a pass over ${quantity(now.words + 1, 'row')}: ${now.speedup.toFixed(2)} × plain speed, if making the drafts cost nothing.`;
    Object.assign(result.dataset, { tokens: now.tokens.toFixed(4), speedup: now.speedup.toFixed(4), words: now.words });
    undo.disabled = !added.length;
    last.find(({ node }) => node === focus)?.button.focus();
  }
  // A word and its children below each other, to its right.
  function branch(node, reach, deep, buttons) {
    const full = worth(tree, 0, 0, 0).words >= MOST || deep >= MOST_DEEP;
    const name = deep ? `reached ${reach.toFixed(2)}` : 'last token';
    const button = makeButton(
      name,
      () => {
        node.push([]);
        added.push(node);
        redraw(node);
        touched();
      },
      'sl-button sl-grow-word',
      {
        'aria-label': `${name}, ${node.length} ${node.length === 1 ? 'child' : 'children'}; add one`,
        '--reach': reach.toFixed(3),
      },
    );
    button.disabled = full;
    buttons.push({ node, button });
    const children = node.map((child, rank) =>
      branch(child, reach * rankChance(rank, first.value, second.value), deep + 1, buttons),
    );
    return make('div', 'sl-grow-branch', [button, make('div', 'sl-grow-children', children)]);
  }
  function plant(to) {
    tree = to;
    added.length = 0;
    redraw();
    touched();
  }
  const undo = makeButton('Undo', () => {
    added.pop().pop();
    redraw();
  });
  const buttons = make('div', 'sl-buttons', [
    makeButton('Best shape', () => plant(bestTree(first.value, second.value, rowCost(), MOST))),
    makeButton('Chain of four', () => plant([[[[[]]]]])),
    undo,
    makeButton('Clear', () => plant([])),
  ]);
  return figure(
    'A tree of your own',
    redraw,
    touched,
    first.row,
    second.row,
    choice.row,
    row.row,
    picture,
    buttons,
    result,
  );
}
