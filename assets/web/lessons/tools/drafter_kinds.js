// Says what each kind of drafter reads for a guess and how it writes it. Knows no DOM.

import { sees } from './pass_places.js';

// The parts that a drafter reads for a guess: the text's tokens ("all", "end"), the target's states of them ("all",
// "last"), the guesses before it ("all", "branch"), a store. ``together``: all guesses are written in
// one step. ``drawn``: no run shows it.
export const KINDS = {
  lookup: {
    name: 'n-gram lookup',
    together: true,
    text: 'end',
    writes: 'It looks for the end of the text further up, and copies what followed there.',
  },
  store: {
    name: 'corpus',
    together: true,
    text: 'end',
    store: 'texts of others',
    writes: 'It looks for the end of the text in a store of other texts, and copies what followed most often.',
  },
  small: {
    name: 'small model',
    text: 'all',
    guesses: 'all',
    writes: 'A whole small model reads the text and its own guesses, and runs once for each guess.',
  },
  layers: {
    name: 'first layers',
    text: 'all',
    guesses: 'all',
    writes:
      'The target’s first two layers read the text and the guesses; a small head turns their state into the next guess.',
  },
  copy: {
    name: 'int4 copy',
    text: 'all',
    guesses: 'all',
    writes:
      'The target itself, rounded to four bits, reads the text and its own guesses. It is almost the target itself, and every step costs a good part of one of its passes.',
  },
  head: {
    name: 'EAGLE',
    states: 'all',
    text: 'all',
    guesses: 'all',
    writes:
      'One layer reads the text with the target’s states. For its own guesses there is no such state yet, so from the second one on it reads its own state instead.',
  },
  tree: {
    name: 'EAGLE, as a tree',
    states: 'all',
    text: 'all',
    guesses: 'branch',
    writes:
      'The same head, but there may be several guesses for one place. It keeps the four that are likeliest to be accepted.',
  },
  heads: {
    name: 'Medusa',
    together: true,
    states: 'last',
    writes: 'Each head reads the same one state and guesses its own place. No head sees what another guessed.',
  },
  ahead: {
    name: 'lookahead',
    together: true,
    store: 'its own pool',
    writes:
      'While the target checks, it also tries to fill in a few places further ahead. What it came up with in earlier passes is offered as a guess now.',
  },
  block: {
    name: 'block head',
    together: true,
    states: 'all',
    text: 'all',
    guesses: 'all',
    writes:
      'One layer reads the text with the target’s states, and fills all places in one step. A place sees the empty places before it, but no guess: none has been made yet. (This head is like P-EAGLE; in DFlash every place sees all the others.)',
  },
  mtp: {
    name: 'MTP',
    drawn: true,
    states: 'all',
    text: 'all',
    guesses: 'all',
    writes: 'The model’s own extra layer reads its states and the text, like EAGLE, and was trained together with it.',
  },
};

// Whether guess ``j`` is read for guess ``i``; ``parents``: each guess's parent, 0 for the text's last token.
export function readsGuess(kind, parents, i, j) {
  const { guesses, together } = KINDS[kind];
  if (!guesses || i === j) return false;
  if (together) return true;
  return guesses === 'branch' ? sees(parents, i + 1, j + 1) : j < i;
}
