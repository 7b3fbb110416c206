// Draws a row's cells: by round, all that a round tested; by text, the same places of the text in every column.
import { make } from '../lib/dom.js';
import { quantity } from '../lib/format.js';
import { isEmitted } from '../lib/statuses.js';
import { makeDrafterTag, makeTokenChip, setStatus } from '../player/token_chip.js';

export const CHUNK = 8; // tokens of a row, by text
const WIDE = 12; // drafts of a tree that has no room in a cell, and is one line of those that were tested

function chip(token, shownTokens, { parted }, pass = false) {
  const node = makeTokenChip(token),
    differs = parted !== undefined && token.position >= parted && isEmitted(token);
  setStatus(node, token.status, `${pass ? ', a new pass' : ''}${differs ? ', not the text of run 1' : ''}`);
  node.classList.toggle('sl-parted', differs);
  node.classList.toggle('sl-pass', pass);
  shownTokens.set(node, token);
  return node;
}

const cellOf = (...parts) => make('div', 'sl-compare-cell', parts, { role: 'cell' });

export function cellOfRound(column, index, shownTokens) {
  const round = column.timeline.rounds[index],
    chips = round?.tokens.map(token => chip(token, shownTokens, column));
  if (!chips) return cellOf();
  const isWide = round.parents && round.drafts > WIDE,
    line = make('span', `sl-line ${isWide ? 'sl-folded' : round.parents ? 'sl-tree' : ''}`, chips);
  if (isWide) line.dataset.untested = `+ ${round.drafts - round.tested} discarded`;
  return round.by ? cellOf(makeDrafterTag(round), line) : cellOf(line);
}

export function cellOfText(column, chunk, shownTokens) {
  const tokens = column.written.slice(chunk * CHUNK, (chunk + 1) * CHUNK);
  if (!tokens.length) return cellOf();
  const begins = token => column.timeline.rounds[token.round].emitted[0] === token;
  const passes = tokens.filter(begins).length;
  return cellOf(
    make(
      'span',
      'sl-line',
      tokens.map(token => chip(token, shownTokens, column, begins(token))),
    ),
    make('span', 'sl-compare-passes', quantity(passes, 'pass')),
  );
}

// Above a column: what ran and how fast, then its numbers and a sentence on its text.
const STATES = {
  waiting: 'waits for its turn',
  running: 'running now',
  stopped: 'stopped',
  recorded: 'recorded',
  ended: '',
};

export function nameCell(head, number) {
  const state = STATES[head.state],
    spoken = make('span', 'sl-unseen', ' the speed of plain decoding');
  return make(
    'div',
    'sl-compare-cell',
    [
      make('span', 'sl-compare-name', `${number}: ${head.name}`),
      head.lossy && make('span', 'sl-lossy', 'lossy', { title: head.lossy }),
      head.speedup && make('span', 'sl-compare-speedup', [head.speedup, spoken]),
      head.doubt && make('span', 'sl-compare-state', head.doubt),
      state && make('span', 'sl-compare-state', state),
    ],
    { role: 'columnheader' },
  );
}

export function factsCell(head) {
  const facts = (head.facts || []).flatMap(([name, value]) => [make('dt', '', name), make('dd', '', value)]);
  return cellOf(
    head.setting && make('p', 'sl-compare-setting', head.setting),
    make('dl', '', facts),
    make('p', 'sl-compare-said', head.said || ''),
  );
}
