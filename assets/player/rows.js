// The rounds as rows, windowed: only the rows in sight (and a few beside them) are in the document, so a trace of
// 2,000 tokens costs no more than a short one. Plain rounds share a row. Knows the tape; nothing of playing.

const GUESS = 36;        // px of a row nobody has measured yet
const BESIDE = 6;        // rows kept above and below what is in sight
const STRIP = 24;        // plain rounds in one row

function makeRows(frame, list, tape) {
  let rows = [];                     // {from, to}: the rounds of a row, `to` not included
  let heights = [];                  // px, measured or undefined
  let shownRounds = 0, shownStep = Infinity;   // up to where the story is told; the last of them only up to that step
  let stick = true;                  // the newest row stays in sight unless the reader scrolled away
  const nodes = new Map();           // row number → its element
  const tokens = new WeakMap();      // token element → token
  let marked = null;                 // the token that is inspected
  let ours = -1;                     // the scroll position we set ourselves

  const plain = round => round.drafts === 0;

  // Extends the rows by the rounds that are new: a plain round joins the row of its plain neighbours.
  function extend() {
    let next = rows.length ? rows.at(-1).to : 0;
    for (; next < tape.rounds.length; next++) {
      const last = rows.at(-1);
      const joins = last && plain(tape.rounds[next]) && plain(tape.rounds[last.from]) && next - last.from < STRIP;
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
    const node = make('button');
    node.type = 'button';
    node.tabIndex = -1;
    const mark = make('span', 'sl-mark');
    mark.setAttribute('aria-hidden', 'true');
    node.append(mark, make('bdi', 'sl-piece', shown(token)), make('span', 'sl-unseen'));
    tokens.set(node, token);
    if (token.place) putInTree(node, token.place);
    if (token === marked) node.setAttribute('aria-current', 'true');
    restage(node, token, stage);
    return node;
  }

  // Siblings stand below each other, each lane a path that the draft could have taken.
  function putInTree(node, { depth, lane, up, closes }) {
    node.style.gridColumn = depth;
    node.style.gridRow = lane + 1;
    node.style.setProperty('--up', up);
    node.dataset.joins = closes ? 'closes' : up ? 'branch' : 'on';
  }

  function restage(node, token, stage) {
    if (node.dataset.stage === stage) return;
    node.dataset.stage = stage;
    node.className = `sl-token sl-${stage}`;
    node.hidden = stage === 'hidden';
    node.children[0].textContent = MARKS[stage] || '';
    const sibling = token.place?.up ? ', another branch' : '';
    node.children[2].textContent = ` ${NAMES[stage] || stage}${sibling}`;
    if (stage === 'scored') node.style.setProperty('--accept', token.accept ?? 0);
  }

  function rowNode(number) {
    const { from, to } = rows[number];
    const row = make('li', 'sl-row');
    const line = make('span', 'sl-line');
    row.append(make('span', 'sl-index'), line, make('span', 'sl-kept'));
    row.dataset.number = number;
    if (plain(tape.rounds[from])) row.classList.add('sl-strip');
    if (tape.rounds[from].parents) line.classList.add('sl-tree');
    fill(row, from, to);
    return row;
  }

  // Brings a row up to what may be shown; cheap when nothing changed.
  function fill(row, from, to) {
    const line = row.children[1];
    const last = Math.min(to, shownRounds);
    let at = 0;
    for (let index = from; index < last; index++) {
      const round = tape.rounds[index];
      const step = index === shownRounds - 1 ? shownStep : Infinity;
      for (const token of round.tokens) {
        const node = line.children[at++], stage = stageOf(round, token, step);
        if (node) restage(node, token, stage); else line.append(tokenNode(token, stage));
      }
    }
    while (line.children.length > at) line.lastChild.remove();
    const round = tape.rounds[from], told = last - from > 1 ? `${from + 1}–${last}` : `${from + 1}`;
    if (row.firstChild.textContent !== told) row.firstChild.textContent = told;
    const done = last < shownRounds || shownStep >= tape.rounds[last - 1]?.steps;
    const kept = round.drafts && done ? `${round.kept} of ${round.drafted} kept` : '';
    if (row.lastChild.textContent !== kept) row.lastChild.textContent = kept;
    row.setAttribute('aria-label', last - from > 1 ? `Rounds ${from + 1} to ${last}, without drafts` : `Round ${from + 1}`);
  }

  // ── the window ──
  const count = () => shownRounds ? rowOf(shownRounds - 1) + 1 : 0;
  const height = number => heights[number] || GUESS;

  function draw() {
    const total = count(), view = frame.clientHeight || 400;
    let all = 0;
    for (let i = 0; i < total; i++) all += height(i);
    const top = stick ? Math.max(0, all - view) : Math.min(frame.scrollTop, Math.max(0, all - view));
    let begin = 0, above = 0;
    while (begin < total && above + height(begin) < top) above += height(begin++);
    let end = begin, filled = above;
    while (end < total && filled < top + view) filled += height(end++);
    begin = Math.max(0, begin - BESIDE);
    end = Math.min(total, end + BESIDE);
    place(begin, end, total);
    const moved = measure(begin, end);
    if (moved) spaces(begin, end, total);
    if (stick) { frame.scrollTop = frame.scrollHeight; ours = frame.scrollTop; }
  }

  function place(begin, end, total) {
    for (const [number, node] of nodes) {
      if (number >= begin && number < end) continue;
      if (node.contains(document.activeElement)) frame.focus({ preventScroll: true });
      node.remove();
      nodes.delete(number);
    }
    let after = null;
    for (let number = end - 1; number >= begin; number--) {
      let node = nodes.get(number);
      if (!node) {
        node = rowNode(number);
        nodes.set(number, node);
        list.insertBefore(node, after);
      } else if (rows[number].to >= shownRounds || node.dataset.open) {
        fill(node, rows[number].from, rows[number].to);
      }
      // The row being told is brought up to date once more after the story has left it.
      if (rows[number].to >= shownRounds) node.dataset.open = '1'; else delete node.dataset.open;
      after = node;
    }
    spaces(begin, end, total);
  }

  function spaces(begin, end, total) {
    let above = 0, below = 0;
    for (let i = 0; i < begin; i++) above += height(i);
    for (let i = end; i < total; i++) below += height(i);
    list.style.paddingTop = `${above}px`;
    list.style.paddingBottom = `${below}px`;
  }

  function measure(begin, end) {
    let moved = false;
    for (let number = begin; number < end; number++) {
      const now = nodes.get(number).offsetHeight;
      if (now && now !== heights[number]) { heights[number] = now; moved = true; }
    }
    return moved;
  }

  // ── what others use ──
  function show(at) {
    extend();
    const { index, step } = tape.locate(at);
    shownRounds = index + 1;
    shownStep = step;
    draw();
  }

  function reset() {
    rows = []; heights = []; shownRounds = 0; stick = true; marked = null;
    nodes.clear();
    list.replaceChildren();
    list.style.padding = '';
  }

  // The element of a token, scrolled into sight first if it is not there.
  function nodeOf(token) {
    const number = rowOf(token.round);
    if (!nodes.has(number)) {
      let top = 0;
      for (let i = 0; i < number; i++) top += height(i);
      stick = false;
      frame.scrollTop = Math.max(0, top - frame.clientHeight / 2);
      draw();
    }
    return present(token);
  }

  function present(token) {
    const all = nodes.get(rowOf(token.round))?.querySelectorAll('.sl-token') || [];
    return [...all].find(node => tokens.get(node) === token);
  }

  function mark(token) {
    frame.querySelector('[aria-current]')?.removeAttribute('aria-current');
    marked = token;
    if (token) present(token)?.setAttribute('aria-current', 'true');
  }

  let asked = false;
  frame.addEventListener('scroll', () => {
    if (asked || frame.scrollTop === ours) return;
    asked = true;
    ours = -1;
    requestAnimationFrame(() => {
      asked = false;
      stick = frame.scrollHeight - frame.scrollTop - frame.clientHeight < 40;
      draw();
    });
  });
  let width = 0;
  new ResizeObserver(() => {                       // lines wrap elsewhere: every height is another
    if (frame.clientWidth !== width) { width = frame.clientWidth; heights = []; }
    if (shownRounds) draw();
  }).observe(frame);

  return { show, reset, nodeOf, mark, tokenOf: node => node && tokens.get(node), follow() { stick = true; } };
}
