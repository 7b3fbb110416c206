// Draws runs side by side: reads the server's lines, keeps a timeline for each column, and draws the rows in sight.

import { make, makeFind, onValue } from '../lib/dom.js';
import { makeNdjsonReader } from '../lib/ndjson_reader.js';
import { makeVirtualRows } from '../lib/virtual_rows.js';
import { firstBelow, navigateRows } from '../player/row_navigation.js';
import { makeTimeline } from '../player/timeline.js';
import { makeTooltip } from '../player/tooltip.js';
import { CHUNK, cellOfRound, cellOfText, factsCell, nameCell } from './compare_cells.js';

export function mount(part) {
  const { element } = part;
  const root = element.querySelector('.sl-compare');
  const find = makeFind(root);
  const frame = find('.sl-compare-frame'),
    names = find('.sl-compare-names'),
    facts = find('.sl-compare-facts');
  const shownTokens = new WeakMap();
  const tooltip = makeTooltip(find('.sl-tip'), frame);
  const rows = makeVirtualRows(frame, find('.sl-compare-rows'), rowNode);
  const WHY = {
    round:
      'Row n is round n of every run: the drafts, the verdicts on them, and the token that closed the round. A run with fewer rows needs fewer passes of the target.',
    text: `Every row holds the same ${CHUNK} places of the text. The fewer passes a run needs for them, the more its drafts were worth there.`,
  };
  let columns = [];
  let by = 'round';
  let follow = false;
  let changed = new Set(); // numbers of rows to draw again

  // ── drawing ──
  function rowNode(number) {
    // Names and facts come first.
    const row = make('div', 'sl-compare-row', '', { role: 'row', 'aria-rowindex': number + 3 });
    fillRow(row, number);
    return row;
  }

  function fillRow(row, number) {
    const from = number * CHUNK + 1;
    const [word, place, cellAt] =
      by === 'round'
        ? ['round ', `${number + 1}`, cellOfRound]
        : ['tokens ', `${from}–${from + CHUNK - 1}`, cellOfText];
    const index = make('div', 'sl-compare-index', [make('span', 'sl-unseen', word), place], { role: 'rowheader' });
    const cells = columns.map(column => cellAt(column, number, shownTokens));
    const focused = focusPlace(row);
    row.replaceChildren(index, ...cells);
    if (focused) row.children[focused.cell]?.querySelectorAll('.sl-token')[focused.at]?.focus({ preventScroll: true });
  }

  // A row that is drawn again keeps the keyboard where it was.
  function focusPlace(row) {
    const node = document.activeElement;
    if (!row.contains(node) || node === row) return null;
    const cell = node.closest('.sl-compare-cell');
    return { cell: [...row.children].indexOf(cell), at: [...cell.querySelectorAll('.sl-token')].indexOf(node) };
  }

  function drawHeads() {
    root.dataset.server = columns.some(column => column.head.server) ? 'beside' : '';
    const corner = () => make('div', 'sl-compare-index', '', { role: 'cell' });
    names.replaceChildren(corner(), ...columns.map((column, i) => nameCell(column.head, i + 1)));
    facts.replaceChildren(corner(), ...columns.map(column => factsCell(column.head)));
  }

  const length = column => (by === 'round' ? column.timeline.rounds.length : Math.ceil(column.written.length / CHUNK));

  function showRows() {
    const count = Math.max(0, ...columns.map(length));
    find('.sl-compare-table').setAttribute('aria-rowcount', String(count + 2));
    rows.showRows(count);
  }

  function drawChanges() {
    root.hidden = !columns.length;
    drawHeads();
    for (const number of changed) if (rows.node(number)) fillRow(rows.node(number), number);
    showRows();
    if (follow && changed.size) rows.scrollToRow(Math.max(...changed));
    changed = new Set();
  }

  // ── lines from the server ──
  const readValue = makeNdjsonReader(
    begin,
    {
      columns(line) {
        if (columns.length === line.names.length) return;
        columns = line.names.map(name => ({
          timeline: makeTimeline(),
          written: [],
          parted: undefined,
          head: { name, state: 'waiting' },
        }));
        root.style.setProperty('--columns', columns.length);
      },
      round(line) {
        const column = columns[line.column];
        if (line.index !== column?.timeline.rounds.length) return; // known, or some are missing: the end brings all
        column.timeline.add(line);
        column.written.push(...line.emitted);
        if (by === 'round') changed.add(line.index);
        else for (const token of line.emitted) changed.add(Math.floor(token.position / CHUNK));
      },
      head(line) {
        const column = columns[line.column];
        if (!column) return;
        column.head = line;
        if (column.parted !== line.parted) for (let number = 0; number < length(column); number++) changed.add(number);
        column.parted = line.parted;
      },
      over() {
        if (follow) frame.scrollTop = 0;
        follow = false;
      },
    },
    drawChanges,
  );

  function begin() {
    columns = [];
    rows.clear();
    tooltip.hide();
    follow = true;
    frame.scrollTop = 0;
  }

  // While runs go on the newest row stays in sight, until the reader scrolls.
  for (const name of ['wheel', 'touchstart', 'pointerdown', 'keydown']) {
    frame.addEventListener(
      name,
      () => {
        follow = false;
      },
      { passive: true },
    );
  }

  // ── input from the reader ──
  root.addEventListener('click', event => {
    const chosen = event.target.closest('button[data-by]')?.dataset.by;
    if (!chosen || chosen === by) return;
    by = chosen;
    drawChoice();
    rows.clear();
    showRows();
    frame.scrollTop = 0;
  });

  function drawChoice() {
    root.dataset.by = by;
    for (const button of root.querySelectorAll('button[data-by]'))
      button.setAttribute('aria-pressed', button.dataset.by === by);
    find('.sl-compare-why').textContent = WHY[by];
  }

  const columnOf = cell => [...cell.parentElement.children].indexOf(cell);

  // The arrow keys go along a row, and up and down in a column.
  function neighbour(node, key) {
    const cell = node.closest('.sl-compare-cell'),
      row = cell.parentElement,
      step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (step) {
      const all = [...row.querySelectorAll('.sl-token')].filter(other => other.offsetParent);
      return all[all.indexOf(node) + step];
    }
    const next = key === 'ArrowDown' ? row.nextElementSibling : row.previousElementSibling;
    return next?.children[columnOf(cell)]?.querySelector('.sl-token');
  }

  navigateRows(frame, {
    tokenOf: node => shownTokens.get(node),
    neighbour,
    hide: tooltip.hide,
    entrance: () => firstBelow(find('.sl-compare-rows'), names.getBoundingClientRect().bottom),
    leave: () => frame.focus({ preventScroll: true }),
    preview(node) {
      const token = shownTokens.get(node),
        { head } = columns[columnOf(node.closest('.sl-compare-cell')) - 1];
      tooltip.show(node, token, token.status, head.greedy);
    },
  });

  drawChoice();
  onValue(part, value => {
    if (value) readValue(value);
  });
}
