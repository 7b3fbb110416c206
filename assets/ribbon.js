// The ribbon: reads the lines that are new, adds a row a round. Model text only ever meets textContent.
const find = selector => element.querySelector(selector);
const text = find('.sl-text'), rows = find('.sl-rows'), tip = find('.sl-tip');
const empty = find('.sl-empty'), compared = find('.sl-compared'), live = find('.sl-unseen');
const MARKS = { accepted: '✓', rejected: '', resampled: '↻', bonus: '+', discarded: '', plain: '·' };
const ENDS = {
  eos: 'The model ended its answer', stop: 'A stop text was reached',
  length: 'The token limit was reached', cancelled: 'Stopped',
};
const data = new WeakMap();   // token element → its numbers
let offset = 0, head = '';

function make(tag, className, content) {
  const node = document.createElement(tag);
  node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
}

// Whitespace has to be seen in a ribbon; the output text keeps it as it is.
const visible = piece => piece.replace(/\n/g, '⏎').replace(/\t/g, '⇥').replace(/ /g, '\u00a0');
const shown = token => visible(token.text || token.label || `#${token.id}`);

function tokenNode(token) {
  const node = make('button', `sl-token sl-${token.status}`);
  node.type = 'button';
  node.tabIndex = -1;
  node.append(make('span', 'sl-mark', MARKS[token.status]), make('bdi', 'sl-piece', shown(token)));
  node.append(make('span', 'sl-unseen', ` ${token.status}`));
  node.firstChild.setAttribute('aria-hidden', 'true');
  data.set(node, token);
  return node;
}

function roundNode(round) {
  const row = make('li', 'sl-row');
  row.append(make('span', 'sl-index', round.index + 1));
  const line = make('span', 'sl-line');
  line.append(...round.tokens.map(tokenNode));
  const kept = round.drafted ? `${round.kept} of ${round.drafted} kept` : '';
  row.append(line, make('span', 'sl-kept', kept));
  return row;
}

function reset() {
  rows.replaceChildren();
  text.textContent = compared.textContent = live.textContent = '';
  offset = 0;
  hide();
}

const handlers = {
  start() { empty.hidden = true; },
  round(round, batch) {
    batch.rows.appendChild(roundNode(round));
    for (const token of round.tokens) {
      if (!['rejected', 'discarded'].includes(token.status)) batch.text += token.text;
    }
  },
  finish({ reason, tokens }) {
    live.textContent = compared.textContent = `${ENDS[reason] || reason} after ${tokens} tokens.`;
  },
  compared({ verdict, at, gap }) {
    const tie = gap == null ? '' : ` (there the target's two best logits were ${gap.toPrecision(2)} apart)`;
    const words = {
      same: 'Plain decoding wrote exactly the same text.',
      differs: `Plain decoding differs from token ${at + 1} on${tie}.`,
      sampled: 'Above temperature 0 the baseline is another sample, so speeds are compared per token.',
    };
    compared.textContent += ` ${words[verdict]}`;
  },
};

function draw() {
  const value = props.value || '';
  if (!value.startsWith(head) || value.length < offset) reset();      // a new run
  const end = value.lastIndexOf('\n') + 1;
  if (end <= offset) return;
  if (offset === 0) head = value.slice(0, value.indexOf('\n') + 1);
  const batch = { rows: document.createDocumentFragment(), text: '' };
  const stick = rows.scrollHeight - rows.scrollTop - rows.clientHeight < 40;
  for (const line of value.slice(offset, end).split('\n')) {
    if (!line) continue;
    const event = JSON.parse(line);
    handlers[event.type]?.(event, batch);
  }
  offset = end;
  rows.appendChild(batch.rows);
  if (batch.text) text.append(batch.text);
  if (stick) { rows.scrollTop = rows.scrollHeight; text.scrollTop = text.scrollHeight; }
  if (!rows.querySelector('[tabindex="0"]')) rows.querySelector('.sl-token')?.setAttribute('tabindex', 0);
}

// ── the numbers of one token ──
const format = x => x === undefined ? null : x !== 0 && x < 0.001 ? x.toExponential(1) : x.toFixed(3);

function sentence({ status, u, accept, p, q }) {
  const below = `u = ${format(u)} against min(1, p/q) = ${format(accept)}`;
  switch (status) {
    case 'accepted': return accept === undefined ? 'Kept.' : `${below}: below, so it stays.`;
    case 'rejected': return accept === undefined ? 'Refused.' : `${below}: not below, so it goes.`;
    case 'resampled': return 'Drawn from what the draft had left over: p − q, where positive.';
    case 'bonus': return 'Every draft was kept, so the same target pass gives one more token.';
    case 'discarded': return 'Behind a refusal: never tested.';
    default: return 'No draft in this round: one target pass, one token.';
  }
}

function fillTip(token) {
  tip.replaceChildren(make('p', 'sl-tip-head', `“${shown(token)}”  ${token.status}`));
  const list = make('dl', '');
  const rowsOf = [['p', 'target', token.p], ['q', 'draft', token.q], ['u', 'draw', token.u], ['min(1, p/q)', '', token.accept]];
  for (const [symbol, word, number] of rowsOf) {
    if (number === undefined) continue;
    list.append(make('dt', '', `${symbol} ${word}`), make('dd', '', format(number)));
  }
  tip.append(list, make('p', 'sl-tip-foot', sentence(token)));
}

let anchor = null;   // the token whose numbers are on show

function show(node) {
  const token = data.get(node);
  if (!token) return;
  anchor = node;
  fillTip(token);
  tip.hidden = false;
  place();
}

function place() {
  const at = anchor.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left), window.innerWidth - size.width - 8);
  const under = at.bottom + 8 + size.height < window.innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${under ? at.bottom + 8 : Math.max(8, at.top - size.height - 8)}px`;
}

// Arrow keys scroll the list too, so the numbers travel with their token as long as it can be seen.
function follow() {
  if (!anchor) return;
  const at = anchor.getBoundingClientRect(), frame = rows.getBoundingClientRect();
  if (at.bottom < frame.top || at.top > frame.bottom) hide(); else place();
}

function hide() {
  tip.hidden = true;
  anchor = null;
}

const tokenOf = event => event.target.closest?.('.sl-rows .sl-token');
// A page that scrolls under a resting mouse must not take the numbers away from the token that has the focus.
const rest = () => data.has(document.activeElement) && rows.contains(document.activeElement)
  ? show(document.activeElement) : hide();
element.addEventListener('mouseover', event => { const node = tokenOf(event); node ? show(node) : rest(); });
element.addEventListener('mouseleave', rest);
element.addEventListener('focusin', event => { const node = tokenOf(event); if (node) show(node); });
element.addEventListener('focusout', hide);
rows.addEventListener('scroll', follow);
window.addEventListener('scroll', follow, { passive: true });

// One stop for Tab; arrows move inside (left and right along tokens, up and down between rounds).
function neighbour(node, key) {
  const all = [...rows.querySelectorAll('.sl-token')], here = all.indexOf(node);
  if (key === 'ArrowRight') return all[here + 1];
  if (key === 'ArrowLeft') return all[here - 1];
  if (key === 'Home') return all[0];
  if (key === 'End') return all.at(-1);
  const row = node.closest('.sl-row');
  const other = key === 'ArrowDown' ? row.nextElementSibling : key === 'ArrowUp' ? row.previousElementSibling : null;
  return other?.querySelector('.sl-token');
}
element.addEventListener('keydown', event => {
  const node = tokenOf(event);
  if (!node) return;
  if (event.key === 'Escape') return hide();
  const next = neighbour(node, event.key);
  if (!next) return;
  event.preventDefault();
  node.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

watch('value', draw);
draw();
