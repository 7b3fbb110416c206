// Runs side by side: reads what the server sends, keeps a tape for each column, and draws the rows in sight.

const root = element.querySelector('.sl-compare'), find = selector => root.querySelector(selector);
const frame = find('.sl-compare-frame'), names = find('.sl-compare-names'), facts = find('.sl-compare-facts');
const shownTokens = new WeakMap(), tip = makeTip(find('.sl-tip'), frame);
const rows = makeWindow(frame, find('.sl-compare-rows'), fillRow);
const WHY = {
  round: 'Row n is round n of every run: what was guessed, what was kept, and the token that closed it. A run that needs fewer rows needs fewer passes of the target.',
  text: `Every row holds the same ${CHUNK} places of the text. The fewer passes a run needs for them, the more its drafts were worth there.`,
};
let lanes = [], run = null, head = '', offset = 0, by = 'round', follow = false;

// ── drawing ──
function fillRow(row, number) {
  const from = number * CHUNK + 1;
  const index = make('div', 'sl-compare-index', by === 'round' ? `${number + 1}` : `${from}–${from + CHUNK - 1}`);
  index.setAttribute('role', 'rowheader');
  index.prepend(make('span', 'sl-unseen', by === 'round' ? 'round ' : 'tokens '));
  const cells = lanes.map(lane => (by === 'round' ? cellOfRound : cellOfText)(lane, number, shownTokens));
  for (const cell of cells) cell.setAttribute('role', 'cell');
  const held = focusPlace(row);
  row.replaceChildren(index, ...cells);
  if (held) row.children[held.cell]?.querySelectorAll('.sl-token')[held.at]?.focus({ preventScroll: true });
}

// A row that is drawn anew keeps the keyboard where it was.
function focusPlace(row) {
  const node = document.activeElement;
  if (!row.contains(node) || node === row) return null;
  const cell = node.closest('.sl-compare-cell');
  return { cell: [...row.children].indexOf(cell), at: [...cell.querySelectorAll('.sl-token')].indexOf(node) };
}

function drawHeads() {
  const corner = () => { const cell = make('div', 'sl-compare-index'); cell.setAttribute('role', 'cell'); return cell; };
  names.replaceChildren(corner(), ...lanes.map((lane, i) => nameCell(lane.head, i + 1)));
  facts.replaceChildren(corner(), ...lanes.map(lane => factsCell(lane.head)));
}

const length = () => Math.max(0, ...lanes.map(lane => by === 'round' ? lane.tape.rounds.length : Math.ceil(lane.written.length / CHUNK)));
const rowOf = (round) => by === 'round' ? round.index : Math.floor((round.emitted[0]?.position ?? 0) / CHUNK);

function redraw() {
  rows.clear();
  rows.grow(length());
}

// ── what the server sends ──
const readers = {
  columns(line) {
    if (lanes.length === line.names.length) return;
    lanes = line.names.map(name => ({ tape: makeTape(), written: [], parted: undefined, head: { name, state: 'waiting' } }));
    root.style.setProperty('--columns', lanes.length);
  },
  round(line, changed) {
    const lane = lanes[line.lane];
    if (!lane || line.index !== lane.tape.rounds.length) return;   // known, or some are missing: the end brings all
    lane.tape.add(line);
    lane.written.push(...line.emitted);
    changed.add(rowOf(line));
    if (by === 'text' && line.emitted.length) changed.add(Math.floor(line.emitted.at(-1).position / CHUNK));
  },
  head(line, changed) {
    const lane = lanes[line.lane];
    if (!lane) return;
    lane.head = line;
    if (lane.parted !== line.parted) { lane.parted = line.parted; changed.all = true; }
  },
  over() { if (follow) frame.scrollTop = 0; follow = false; },
};

function begin(line) {
  run = line.run;
  lanes = [];
  rows.clear();
  tip.hide();
  follow = true;
  frame.scrollTop = 0;
}

function read(value) {
  const lineEnd = value.indexOf('\n') + 1;
  if (!lineEnd) return;
  if (value.slice(0, lineEnd) !== head || value.length < offset) {
    head = value.slice(0, lineEnd);
    offset = lineEnd;
    const start = JSON.parse(head);
    if (start.run !== run) begin(start);
  }
  const end = value.lastIndexOf('\n') + 1, changed = new Set();
  for (const text of value.slice(offset, end).split('\n')) {
    if (!text) continue;
    const line = JSON.parse(text);
    readers[line.type]?.(line, changed);
  }
  offset = Math.max(offset, end);
  root.hidden = !lanes.length;
  drawHeads();
  rows.grow(length());
  if (changed.all) rows.all(); else rows.refresh(changed);
  if (follow && changed.size) inSight(Math.max(...changed));
}

// While runs go on the newest row stays in sight, until the reader scrolls.
function inSight(number) {
  const row = rows.row(number);
  if (row) frame.scrollTop = Math.max(0, row.offsetTop + row.offsetHeight - frame.clientHeight);
}
for (const name of ['wheel', 'touchstart', 'pointerdown', 'keydown']) {
  frame.addEventListener(name, () => { follow = false; }, { passive: true });
}

// ── what the reader does ──
root.addEventListener('click', event => {
  const chosen = event.target.closest('button[data-by]')?.dataset.by;
  if (!chosen || chosen === by) return;
  by = chosen;
  show();
  redraw();
  frame.scrollTop = 0;
});

function show() {
  root.dataset.by = by;
  for (const button of root.querySelectorAll('button[data-by]')) button.setAttribute('aria-pressed', button.dataset.by === by);
  find('.sl-compare-why').textContent = WHY[by];
}

const tokenAt = node => shownTokens.get(node?.closest?.('.sl-token'));
function preview(node) {
  const token = tokenAt(node);
  if (!token) return void tip.hide();
  const cell = node.closest('.sl-compare-cell'), lane = lanes[[...cell.parentElement.children].indexOf(cell) - 1];
  tip.show(node.closest('.sl-token'), token, token.status, lane.head.greedy);
}
// Off the tokens the pointer tells of none, so that of the focused one stays: a page that scrolls beneath a resting
// mouse says it moved.
const held = () => frame.contains(document.activeElement) ? document.activeElement : null;
frame.addEventListener('mouseover', event => preview(tokenAt(event.target) ? event.target : held()));
frame.addEventListener('mouseleave', () => preview(held()));
frame.addEventListener('focusin', event => preview(event.target));
frame.addEventListener('focusout', () => tip.hide());

// The arrow keys walk among the tokens: along a row, and up and down in a column.
frame.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const node = event.target.closest('.sl-token');
  if (node && event.key === 'Escape') { frame.focus({ preventScroll: true }); return void event.preventDefault(); }
  if (!node && event.key !== 'ArrowDown') return;
  if (!event.key.startsWith('Arrow')) return;
  event.preventDefault();
  (node ? neighbour(node, event.key) : entrance())?.focus();
});

function entrance() {
  const top = names.getBoundingClientRect().bottom;
  return [...frame.querySelectorAll('.sl-compare-rows .sl-token')].find(node => node.getBoundingClientRect().top >= top);
}

function neighbour(node, key) {
  const cell = node.closest('.sl-compare-cell'), row = cell.parentElement;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step) {
    const all = [...row.querySelectorAll('.sl-token')];
    return all[all.indexOf(node) + step];
  }
  const column = [...row.children].indexOf(cell);
  const next = key === 'ArrowDown' ? row.nextElementSibling : row.previousElementSibling;
  return next?.children[column]?.querySelector('.sl-token');
}

show();
watch('value', () => { if (props.value) read(props.value); });
if (props.value) read(props.value);
