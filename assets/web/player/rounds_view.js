// Draws the rounds as rows; virtual_rows.js keeps only those in sight. A tree is one line of the drafts that were
// tested; it unfolds while its round is played or one of its tokens is inspected. With a branch a row has two cells,
// one for each lane. Knows the timeline and the branch, and nothing of playing.
import { make, setText } from '../lib/dom.js';
import { isUntested } from '../lib/statuses.js';
import { makeVirtualRows } from '../lib/virtual_rows.js';
import { columnOf, draftedSentence } from './draft_sentences.js';
import { isPlain, makeRoundRows } from './round_rows.js';
import { stageOf } from './timeline.js';
import { makeDrafterTag, makeTokenChip, setStatus } from './token_chip.js';

// What a folded tree does not show.
function untestedWords({ drafts, tested, forbidden }) {
  const untested = drafts - tested,
    words = [untested && `${untested} discarded`, forbidden.length && `${forbidden.length} forbidden`].filter(Boolean);
  return words.length ? `+ ${words.join(', ')}` : '';
}

/** @param {HTMLElement} frame @param {HTMLElement} list @param {import('./rounds.d.ts').Timeline} timeline
 * @param {ReturnType<typeof import('./branch.js').makeBranch>} branch */
export function makeRoundsView(frame, list, timeline, branch) {
  const rows = makeRoundRows(timeline, branch);
  let place = { index: -1, step: 0 };
  let shownRounds = 0; // how many are on screen
  let shownStep = Infinity; // of the last of them
  const tokens = new WeakMap(); // token element → token
  let marked = null; // the token that is inspected
  const virtual = makeVirtualRows(frame, list, rowNode, update);
  virtual.stick();

  // ── one row ──
  function tokenNode(token, stage) {
    const node = makeTokenChip(token);
    tokens.set(node, token);
    if (token === marked) node.setAttribute('aria-current', 'true');
    restage(node, token, stage);
    return node;
  }

  function restage(node, token, stage) {
    if (node.dataset.stage === stage) return;
    setStatus(node, stage, token.place?.up ? ', another branch' : token.branch ? ', in the branch' : '');
    if (stage === 'scored') node.style.setProperty('--accept', token.accept ?? 0);
  }

  function rowNode(number) {
    const round = timeline.rounds[rows.range(number).from];
    const kept = make('span', 'sl-kept', [make('span'), make('span', 'sl-kept-word', ' accepted')]);
    const parts = [
      make('span', 'sl-index'),
      makeDrafterTag(round, timeline.about.drafters?.[round?.method]),
      make('span', 'sl-line'),
      kept,
      make('span', 'sl-took'),
      make('span', 'sl-how'),
    ];
    if (branch.on) parts.push(make('span', 'sl-line'));
    const row = make('li', round && isPlain(round) ? 'sl-row sl-plain-row' : 'sl-row', parts, {
      'data-number': number,
      'data-part': 'round',
    });
    fill(row, number);
    return row;
  }

  // The newest row is filled once more after the position has left it.
  function update(row, number) {
    const isNews = branch.on && row.dataset.version !== String(branch.version);
    if (rows.range(number).to >= shownRounds || row.dataset.open || isNews) fill(row, number);
  }

  // Brings a row up to what may be shown; cheap when nothing changed.
  function fill(row, number) {
    const { from, to } = rows.range(number),
      [label, , line, kept, took, how, second] = row.children,
      last = Math.min(to, shownRounds);
    const staged = [];
    for (let index = from; index < last; index++) {
      const round = timeline.rounds[index],
        step = index === shownRounds - 1 ? shownStep : Infinity;
      for (const token of round.cells) staged.push([token, stageOf(round, token, step)]);
    }
    fillLine(line, staged);
    const round = timeline.rounds[from],
      many = last - from > 1;
    fold(line, round, from);
    setText(how, isOpen(from) && round ? draftedSentence(round, timeline.about) : '');
    setText(label, many ? `${from + 1}–${last}` : `${from + 1}`);
    const done = last < shownRounds || shownStep >= timeline.rounds[last - 1]?.steps;
    kept.hidden = !round?.drafts || !done;
    setText(kept.firstChild, `${round?.accepted} of ${round?.counted === false ? '?' : round?.drafted}`);
    setText(took, round && !many && done ? `${Math.round(1000 * (round.end - round.start))} ms` : '');
    if (branch.on) fillSecond(row, second, from, to);
    row.toggleAttribute('data-told', !many && from === shownRounds - 1);
    row.setAttribute('aria-label', many ? `Rounds ${from + 1} to ${last}, without drafts` : `Round ${from + 1}`);
    if (to >= shownRounds) row.dataset.open = '1';
    else delete row.dataset.open;
  }

  // A row shows more of its round while that is played or one of its tokens is inspected.
  const isOpen = row => row === shownRounds - 1 || Boolean(marked && branch.rowOf(marked) === row);
  const isFolded = (round, row) => Boolean(round?.parents) && !isOpen(row);
  const unfolds = round => Boolean(round && (round.parents || draftedSentence(round, timeline.about)));

  // Folded, a tree shows the drafts in the order they were tried, and how many were not.
  function fold(line, round, row) {
    if (!unfolds(round)) return;
    const open = isOpen(row),
      column = open && columnOf(round, timeline.about),
      untested = round.parents ? untestedWords(round) : '';
    line.classList.toggle('sl-folded', isFolded(round, row));
    line.classList.toggle('sl-tree', Boolean(round.parents) && open);
    line.classList.toggle('sl-heads', Boolean(column));
    if (column)
      round.tokens.slice(0, round.drafts).forEach((_, i) => {
        if (line.children[i]) line.children[i].dataset.head = `${column} ${i + 1}`;
      });
    if (untested) line.dataset.untested = untested;
    else delete line.dataset.untested;
  }

  // Folds or unfolds a row after another token was marked.
  function refold(token) {
    const index = token ? branch.rowOf(token) : -1,
      row = [timeline.rounds[index], besideRow(index)].some(unfolds) && virtual.node(rows.indexOf(index));
    if (row) fill(row, rows.indexOf(index));
    return Boolean(row);
  }

  function fillLine(line, staged) {
    for (const [i, [token, stage]] of staged.entries()) {
      const node = line.children[i];
      if (node && tokens.get(node) === token) restage(node, token, stage);
      else if (node) node.replaceWith(tokenNode(token, stage));
      else line.append(tokenNode(token, stage));
    }
    while (line.children.length > staged.length) line.lastChild.remove();
  }

  // The branch's round.
  const besideRow = row => (branch.on ? branch.timeline.rounds[row - branch.from - 1] : undefined);
  const drafter = round => (round?.by ? `drafted by ${round.by}` : ''); // a lane has no room for tags

  // The branch's cell: dotted above the forced token, because both lanes are the same there.
  function fillSecond(row, line, from, to) {
    line.classList.add('sl-second');
    line.classList.toggle('sl-same', from < branch.from);
    fold(line, besideRow(from), from);
    row.dataset.version = branch.version;
    row.children[2].title = drafter(timeline.rounds[from]);
    line.title = drafter(besideRow(from));
    if (from < branch.from) setText(line, to === branch.from ? 'the same up to here' : '');
    else
      fillLine(
        line,
        branch.tokensIn(from).map(token => [token, branch.stage(token, place)]),
      );
  }

  // ── for the other files ──
  function show(at) {
    const known = rows.end;
    rows.extend();
    const news = timeline.rounds.slice(known);
    if (news.some(round => round.by)) frame.dataset.several = '';
    if (news.some(round => round.parents)) frame.parentElement.dataset.trees = '';
    place = timeline.locate(at);
    shownRounds = place.index + 1;
    shownStep = place.step;
    virtual.showRows(rowsToShow());
  }

  // What a branch has beyond its run comes at the run's end.
  function rowsToShow() {
    const isOver = shownRounds === timeline.rounds.length && shownStep >= timeline.rounds.at(-1)?.steps;
    return !shownRounds ? 0 : branch.on && isOver ? rows.count : rows.indexOf(shownRounds - 1) + 1;
  }

  // The rows again, because a branch came or went.
  function rebuild() {
    rows.clear();
    virtual.clear();
  }

  function reset() {
    rows.clear();
    shownRounds = 0;
    marked = null;
    frame.removeAttribute('data-several');
    frame.parentElement.removeAttribute('data-trees');
    virtual.clear();
    virtual.stick();
  }

  // The element of a token, scrolled into sight first if it is not in the document.
  function nodeOf(token) {
    const row = rows.indexOf(branch.rowOf(token));
    if (!virtual.node(row)) virtual.scrollToRow(row);
    return drawnNode(token);
  }

  function drawnNode(token) {
    const all = virtual.node(rows.indexOf(branch.rowOf(token)))?.querySelectorAll('.sl-token') || [];
    return [...all].find(node => tokens.get(node) === token);
  }

  function mark(token) {
    frame.querySelector('[aria-current]')?.removeAttribute('aria-current');
    const before = marked;
    marked = token;
    const folds =
      (before && branch.rowOf(before)) !== (token && branch.rowOf(token)) && [before, token].map(refold).some(Boolean);
    if (folds) virtual.showRows(rowsToShow()); // its rows have other heights now
    const row = folds && token && virtual.node(rows.indexOf(branch.rowOf(token)));
    if (row) revealRow(row);
    if (token) drawnNode(token)?.setAttribute('aria-current', 'true');
  }

  // Scrolls so that a row that unfolded is in sight, at least its upper part.
  function revealRow(row) {
    const { top, bottom } = row.getBoundingClientRect(),
      view = frame.getBoundingClientRect();
    if (top < view.top || bottom > view.bottom)
      frame.scrollTop += Math.min(Math.max(0, bottom - view.bottom) || top - view.top, top - view.top);
  }

  const hides = token =>
    isUntested(token) && isFolded((token.branch ? branch.timeline : timeline).rounds[token.round], branch.rowOf(token));

  return {
    show,
    reset,
    rebuild,
    nodeOf,
    mark,
    hides,
    tokenOf: node => node && tokens.get(node),
    follow: virtual.stick,
    focus: () => frame.focus({ preventScroll: true }),
    scrollTo: index => virtual.scrollToRow(rows.indexOf(index)),
  };
}
