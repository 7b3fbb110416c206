// Draws the rounds as rows; virtual_rows.js keeps only those in sight. Neighbouring plain rounds share a row. A tree is
// one line of the drafts that were tested; it unfolds while its round is played or one of its tokens is inspected. Knows
// the timeline, and nothing of playing.

const STRIP = 24;        // plain rounds in one row

function makeRoundsView(frame, list, timeline) {
  let rows = [];                     // {from, to}: the rounds of a row, `to` not included
  let shownRounds = 0, shownStep = Infinity;   // only that many rounds are on screen, the last one only up to that step
  const tokens = new WeakMap();      // token element → token
  let marked = null;                 // the token that is inspected
  const virtual = makeVirtualRows(frame, list, rowNode, update);
  virtual.stick();

  const plain = round => round.drafts === 0;

  // Extends the rows by the rounds that are new: a plain round joins the row of its plain neighbours.
  function extend() {
    let next = rows.length ? rows.at(-1).to : 0;
    for (; next < timeline.rounds.length; next++) {
      const last = rows.at(-1);
      if (timeline.rounds[next].by) frame.dataset.several = '';
      const joins = last && plain(timeline.rounds[next]) && plain(timeline.rounds[last.from]) && next - last.from < STRIP;
      if (joins) last.to = next + 1; else rows.push({ from: next, to: next + 1 });
    }
  }

  function rowOf(index) {
    let low = 0, high = rows.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (rows[middle].from <= index) low = middle; else high = middle;
    }
    return low;
  }

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
    setStage(node, stage, token.place?.up ? ', another branch' : '');
    if (stage === 'scored') node.style.setProperty('--accept', token.accept ?? 0);
  }

  function rowNode(number) {
    const round = timeline.rounds[rows[number].from], line = make('span', 'sl-line');
    const parts = [make('span', 'sl-index'), tagNode(round), line, make('span', 'sl-kept', [make('span'), make('span', 'sl-kept-word', ' accepted')]), make('span', 'sl-took')];
    const row = make('li', plain(round) ? 'sl-row sl-plain-row' : 'sl-row', parts, { 'data-number': number, 'data-part': 'round' });
    fill(row, number);
    return row;
  }

  // Who drafted the round, where several compete: square for a lookup, round for a model.
  function tagNode({ by = '' }) {
    return make('span', 'sl-tag', by.replace(/ (lookup|head|copy)$/, ''), { title: by, 'data-kind': by.endsWith('lookup') ? 'lookup' : 'model' });
  }

  // The newest row is filled once more after the position has left it.
  function update(row, number) {
    if (rows[number].to >= shownRounds || row.dataset.open) fill(row, number);
  }

  // Brings a row up to what may be shown; cheap when nothing changed.
  function fill(row, number) {
    const { from, to } = rows[number], [place, , line, kept, took] = row.children, last = Math.min(to, shownRounds);
    let at = 0;
    for (let index = from; index < last; index++) {
      const round = timeline.rounds[index];
      const step = index === shownRounds - 1 ? shownStep : Infinity;
      for (const token of round.tokens) {
        const node = line.children[at++], stage = stageOf(round, token, step);
        if (node) restage(node, token, stage); else line.append(tokenNode(token, stage));
      }
    }
    while (line.children.length > at) line.lastChild.remove();
    const round = timeline.rounds[from], many = last - from > 1;
    if (round.parents) fold(line, round);
    setText(place, many ? `${from + 1}–${last}` : `${from + 1}`);
    const done = last < shownRounds || shownStep >= timeline.rounds[last - 1]?.steps;
    kept.hidden = !round.drafts || !done;
    setText(kept.firstChild, `${round.kept} of ${round.drafted}`);
    setText(took, !many && done ? `${Math.round(1000 * (round.end - round.start))} ms` : '');
    row.toggleAttribute('data-told', !many && from === shownRounds - 1);
    row.setAttribute('aria-label', many ? `Rounds ${from + 1} to ${last}, without drafts` : `Round ${from + 1}`);
    if (to >= shownRounds) row.dataset.open = '1'; else delete row.dataset.open;
  }

  const isFolded = round => Boolean(round.parents) && round.index !== shownRounds - 1 && marked?.round !== round.index;

  // Folded, a tree shows the drafts in the order they were tried, and how many were not.
  function fold(line, round) {
    line.className = isFolded(round) ? 'sl-line sl-folded' : 'sl-line sl-tree';
    const untested = round.drafts - round.tested;
    if (untested) line.dataset.untested = `+ ${untested} untested`;
  }

  // Folds or unfolds the row of a tree after another token was marked.
  function refold(token) {
    const number = token && timeline.rounds[token.round]?.parents ? rowOf(token.round) : -1, row = virtual.node(number);
    if (row) fill(row, number);
    return Boolean(row);
  }

  // ── for the other files ──
  function show(at) {
    extend();
    const { index, step } = timeline.locate(at);
    shownRounds = index + 1;
    shownStep = step;
    virtual.show(shownRounds ? rowOf(shownRounds - 1) + 1 : 0);
  }

  function reset() {
    rows = [];
    shownRounds = 0;
    marked = null;
    frame.removeAttribute('data-several');
    virtual.clear();
    virtual.stick();
  }

  // The element of a token, scrolled into sight first if it is not in the document.
  function nodeOf(token) {
    if (!virtual.node(rowOf(token.round))) virtual.scrollToRow(rowOf(token.round));
    return drawnNode(token);
  }

  function drawnNode(token) {
    const all = virtual.node(rowOf(token.round))?.querySelectorAll('.sl-token') || [];
    return [...all].find(node => tokens.get(node) === token);
  }

  function mark(token) {
    frame.querySelector('[aria-current]')?.removeAttribute('aria-current');
    const before = marked;
    marked = token;
    const folds = before?.round !== token?.round && [before, token].map(refold).some(Boolean);
    if (folds) virtual.show(rowOf(shownRounds - 1) + 1);   // its rows have other heights now
    if (token) drawnNode(token)?.setAttribute('aria-current', 'true');
  }

  const hides = token => token.status === 'discarded' && isFolded(timeline.rounds[token.round]);

  return { show, reset, nodeOf, mark, hides, tokenOf: node => node && tokens.get(node), follow: virtual.stick };
}
