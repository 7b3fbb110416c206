// Steps one recorded round through every drafter: what each reads and writes, which guesses fall, what the round cost.

import { make, makeButton, setText } from '../../lib/dom.js';
import { quantity, visible } from '../../lib/format.js';
import { figure, makeNote, makeResult, meter, picker, short } from '../widgets/widgets.js';
import { KINDS, readsGuess } from './drafter_kinds.js';

const MARKS = { accepted: '✓', rejected: '✗', discarded: '', drafted: '' };
const chip = (text, className = '') => make('span', `sl-chip ${className}`, visible(text));

// What a round costs in plain steps, and its tokens for each of them.
export function roundCost({ steps, c, v, emitted }) {
  const cost = steps * c + v;
  return { cost, rate: emitted / cost };
}

// ``places``: by words, { before, next, drafters: name → { guesses: [[text, status, parent]], closing, emitted, steps,
// c, v, copied } } ``drawn``: whether the kinds that no run shows are offered, too.
export function makeDrafters({ places, drawn }, touched) {
  const kinds = Object.keys(KINDS).filter(name =>
    KINDS[name].drawn ? drawn : Object.values(places).some(each => name in each.drafters),
  );
  const place = picker('Place in the text', Object.entries(places));
  const tabs = make('div', 'sl-drafter-tabs', [], { role: 'group', 'aria-label': 'Drafter' });
  const store = make('p', 'sl-drafter-store');
  const text = make('div', 'sl-drafter-row');
  const guesses = make('div', 'sl-drafter-row');
  const writes = make('p', 'sl-drafter-writes');
  const result = makeResult();
  const board = make('div', 'sl-drafter-board');
  const go = makeButton('', forward);
  const back = makeButton('Start this drafter over', () => {
    at = 0;
    draw();
  });
  const seen = new Map();
  let kind = kinds[0],
    at = 0;

  const round = () => place.value.drafters[kind] ?? null;
  const count = () => (KINDS[kind].drawn ? 4 : (round()?.guesses.length ?? 0));
  const last = () => (count() && KINDS[kind].together ? 1 : count()); // steps of writing; the next one tests

  function choose(name) {
    kind = name;
    at = 0;
    draw();
  }

  function forward() {
    if (at > last() || (!round() && !KINDS[kind].drawn)) {
      return choose(kinds[(kinds.indexOf(kind) + 1) % kinds.length]);
    }
    at++;
    if (at > last() && round()) seen.set(`${place.index} ${kind}`, roundCost(round()).rate);
    draw();
    touched();
  }

  // The guess that is being written, and whether something is read for it.
  const countWritten = () => (KINDS[kind].together ? (at >= 1 ? count() : 0) : Math.min(at, count()));
  const isWriting = () => at >= 1 && at <= last();
  function readsText(i, all) {
    const { text: reads } = KINDS[kind],
      matched = round()?.copied?.length ?? 2;
    return isWriting() && (reads === 'all' || (reads === 'end' && i >= all - matched));
  }
  const readsState = (i, all) =>
    isWriting() && (KINDS[kind].states === 'all' || (KINDS[kind].states === 'last' && i === all - 1));

  function drawText() {
    const { before, next } = place.value,
      isTested = at > last() && round();
    text.replaceChildren(
      ...before.map((piece, i) =>
        make('span', 'sl-drafter-column', [
          chip(piece, readsText(i, before.length) ? 'sl-reads' : ''),
          make('i', `sl-state ${readsState(i, before.length) ? 'sl-reads' : ''}`),
        ]),
      ),
      ...(isTested
        ? next.slice(0, round().emitted).map(piece => make('span', 'sl-drafter-column', [chip(piece, 'sl-chip-new')]))
        : []),
    );
    store.textContent = KINDS[kind].store ? `Reads: ${KINDS[kind].store}` : '';
    store.classList.toggle('sl-reads', Boolean(KINDS[kind].store) && isWriting());
  }

  function drawGuesses() {
    const rows = KINDS[kind].drawn ? Array.from({ length: 4 }, () => ['?', 'drafted']) : (round()?.guesses ?? []);
    const parents = rows.map(row => row[2] ?? 0);
    const now = KINDS[kind].together ? -1 : at - 1;
    const shown = countWritten();
    guesses.replaceChildren(
      ...rows.slice(0, shown).map(([piece, status], j) => {
        const isRead =
          isWriting() &&
          (KINDS[kind].together ? readsGuess(kind, parents, -1, j) && count() > 1 : readsGuess(kind, parents, now, j));
        const node = chip(piece, isRead ? 'sl-reads' : '');
        if (at > last() && !KINDS[kind].drawn) {
          node.dataset.status = status;
          if (MARKS[status]) node.append(make('b', '', MARKS[status]));
          node.setAttribute('aria-label', `${piece.trim()}: ${status}`);
        } else if (j === now) node.dataset.now = '';
        return node;
      }),
    );
    if (!shown)
      guesses.append(
        make(
          'span',
          'sl-dim',
          rows.length ? 'no guess yet' : round() ? 'it has nothing to offer here' : 'no recorded round begins here',
        ),
      );
  }

  function say() {
    if (KINDS[kind].drawn)
      return at > last() ? 'This one is a drawing, not a recording, so there are no guesses to test.' : '';
    if (!round()) return 'This drafter had no round starting exactly here. Try another place.';
    if (at <= last()) return '';
    const { steps, c, v, emitted, guesses: all } = round();
    const { cost, rate } = roundCost(round());
    const kept = all.filter(guess => guess[1] === 'accepted').length;
    const tokens = quantity(emitted, 'token');
    const drafts = all.length ? `${kept} of ${all.length} accepted` : 'Nothing drafted';
    const drafting = steps
      ? `Drafting takes ${steps} · ${c.toFixed(3)} and the pass ${v.toFixed(2)}`
      : `Drafting takes nothing and the pass ${v.toFixed(2)}`;
    return `${drafts}, so ${tokens}. ${drafting}: ${cost.toFixed(2)} plain steps, with ${rate.toFixed(2)} tokens for each.`;
  }

  function drawBoard() {
    const rates = kinds.map(name => [KINDS[name].name, seen.get(`${place.index} ${name}`)]).filter(row => row[1]);
    const most = Math.max(2, ...rates.map(row => row[1]));
    board.replaceChildren(
      ...(rates.length
        ? [['plain decoding', 1], ...rates].map(([words, rate]) => {
            const bar = meter(words === 'plain decoding' ? '' : 'sl-meter-p');
            bar.set(words, rate / most, short(rate));
            return bar.row;
          })
        : []),
    );
  }

  function draw() {
    tabs.replaceChildren(
      ...kinds.map(name =>
        makeButton(KINDS[name].name, () => choose(name), 'sl-button sl-drafter-tab', {
          'aria-pressed': String(name === kind),
          'data-drafter': name,
        }),
      ),
    );
    writes.textContent = KINDS[kind].writes;
    drawText();
    drawGuesses();
    result.textContent = say();
    result.dataset.rate = at > last() && round() ? roundCost(round()).rate.toFixed(4) : '';
    const { drawn, together } = KINDS[kind];
    if ((!round() && !drawn) || at > last()) setText(go, 'Next drafter');
    else if (at === last()) setText(go, 'Let the target test');
    else setText(go, together ? 'Let it guess' : `Write guess ${at + 1}`);
    back.hidden = at === 0;
    drawBoard();
  }

  const box = figure(
    'One round, by each drafter',
    () => {},
    () => {},
    place.row,
    tabs,
    writes,
    make('p', 'sl-drafter-label', 'The text, and a state of the target for each token:'),
    text,
    store,
    make('p', 'sl-drafter-label', 'Its guesses:'),
    guesses,
    make('div', 'sl-buttons', [go, back]),
    result,
    board,
    makeNote(
      'Orange: read for the guess that is being written. Recorded greedy rounds of one text; c and v of each run’s machine.',
    ),
  );
  place.row.addEventListener('change', () => choose(kind));
  draw();
  return box;
}
