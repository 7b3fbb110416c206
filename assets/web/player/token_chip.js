// Draws one token as a button: its mark, its text, and its status in words for a screen reader.
import { make } from '../lib/dom.js';
import { tokenText } from '../lib/format.js';
import { FROM_GRAMMAR, isUnknown, STATUSES } from '../lib/statuses.js';

export function makeTokenChip(token) {
  const mark = make('span', 'sl-mark', '', { 'aria-hidden': 'true' }),
    text = tokenText(token);
  const lead = /^\u00a0(?=[^\u00a0])/.test(text); // a leading space is a thin gap, and nothing strikes it out
  const piece = make('bdi', text.trim().length > 2 ? 'sl-piece' : 'sl-piece sl-short', lead ? text.slice(1) : text);
  const node = make('button', '', [mark, lead && make('span', 'sl-lead', '\u00a0'), piece, make('span', 'sl-unseen')], {
    type: 'button',
    tabindex: -1,
  });
  if (isUnknown(token)) node.dataset.unknown = '';
  if (token.grammar) node.dataset.grammar = '';
  if (token.place) placeInTree(node, token.place);
  return node;
}

// Siblings are drawn below each other, each in the row of a path that the draft could have taken.
// ``among``: its place among the siblings that were tested, which share a frame where the tree is one line.
function placeInTree(node, { depth, row, up, closes, among }) {
  node.style.gridColumn = depth;
  node.style.gridRow = row + 1;
  node.style.setProperty('--up', up);
  if (among) node.dataset.among = among;
  node.dataset.joins = closes ? 'closes' : up ? 'fork' : 'on';
}

// Who drafted the round, where several compete: square for a lookup, round for a model. ``words``: how it guesses.
export function makeDrafterTag({ by = '' } = {}, words = by) {
  return make('span', 'sl-tag', by.replace(/ (lookup|head|copy)$/, ''), {
    tabindex: -1,
    'aria-description': words,
    'data-means': words,
    'data-kind': by.endsWith('lookup') || by === 'grammar' ? 'lookup' : 'model',
  });
}

// ``stage``: hidden, waiting, scored or the token's status. ``more``: said after it.
export function setStatus(node, stage, more = '') {
  node.dataset.stage = stage;
  node.className = `sl-token sl-${stage}`;
  node.hidden = stage === 'hidden';
  node.children[0].textContent = markOf(stage, 'grammar' in node.dataset);
  const from = 'grammar' in node.dataset ? `, ${FROM_GRAMMAR.word}` : '';
  node.lastChild.textContent = ` ${STATUSES[stage]?.word ?? stage}${from}${more}`;
}

export const markOf = (stage, isFromGrammar) =>
  (STATUSES[stage]?.mark ?? '') + (isFromGrammar ? FROM_GRAMMAR.mark : '');
