// Draws the candidates of one place as one table: q to the left of a middle line, p to the right; the part of p over q,
// which the residual keeps, is hatched.
import { make, makeButton } from '../lib/dom.js';
import { format, isolate, percent, spokenPercent, tokenText, visible } from '../lib/format.js';
import { massOf, residualRows } from './probabilities.js';
import { quote } from './sentences.js';

export const BARS = 5; // candidates shown; the trace keeps a few more
export const FEW_BARS = 3; // beside a block
export const note = text => make('p', 'sl-aside', text);

// ``drawn``: the token that a re-draw from the residual gave, after a rejection; ``fork(id)``: forces a candidate here,
// unless it is the ``written`` one.
export function candidatesNode(token, probabilities, drawn, most = BARS, fork = null, written = null) {
  const { p, q, residual, isLeft } = probabilities,
    rows = candidates(token, probabilities, drawn, most),
    left = leftOver(rows, probabilities);
  const head = ['token', q ? `draft’s q${isLeft ? '′' : ''}` : '', '', p ? (isLeft ? 'p′ left' : 'target’s p') : ''];
  const parts = [
    make(
      'div',
      'sl-candidate-head',
      head.map(words => make('span', '', words)),
    ),
    make(
      'ul',
      'sl-candidates',
      rows.map((row, i) =>
        candidateNode(row, token, drawn, left[i], row.id === null || row.id === written ? null : fork),
      ),
    ),
  ];
  if (residual && drawn) parts.push(note(residualSentence(residualRows(probabilities), drawn, probabilities)));
  return make('div', fork ? 'sl-candidate-table sl-forks' : 'sl-candidate-table', parts);
}

// {id, text, p, q} of the likeliest candidates, always with the token itself and the one drawn; a mass that the trace
// does not have is undefined. The last row is of all others.
function candidates(token, { p, q, residual, isLeft }, drawn, most) {
  const known = new Map();
  for (const { top } of [p, q, residual].filter(Boolean))
    for (const [id, text] of top) if (!known.has(id)) known.set(id, text);
  for (const one of [token, drawn].filter(each => each && each.id !== null))
    if (!known.has(one.id)) known.set(one.id, tokenText(one));
  // The p of a token is the target's, not the one that was left.
  const own = (symbol, id) =>
    isLeft && symbol === 'p' ? undefined : [token, drawn].find(one => one?.id === id)?.[symbol];
  const mass = (distribution, symbol, id) => distribution && (own(symbol, id) ?? massOf(distribution, id).mass);
  const all = [...known].map(([id, text]) => ({ id, text, p: mass(p, 'p', id), q: mass(q, 'q', id) }));
  const weight = row => (row.id === token.id ? 3 : row.id === drawn?.id ? 2 : Math.max(row.p ?? 0, row.q ?? 0));
  const rows = all.sort((a, b) => weight(b) - weight(a)).slice(0, most);
  rows.sort((a, b) => Math.max(b.p ?? 0, b.q ?? 0) - Math.max(a.p ?? 0, a.q ?? 0));
  const others = symbol => 1 - rows.reduce((sum, row) => sum + (row[symbol] ?? 0), 0);
  const rest = { id: null, text: 'others', p: p && others('p'), q: q && others('q') };
  return Math.max(rest.p ?? 0, rest.q ?? 0) > 5e-5 ? [...rows, rest] : rows;
}

// What the residual keeps of each row's p: its share of the residual, which is exact, else p over q.
function leftOver(rows, { residual, weight = 1, ...known }) {
  const { rows: parts, total } = residualRows({ residual, weight, ...known });
  const shareOf = id => parts.find(part => part.id === id)?.share ?? 0;
  const others = 1 - rows.reduce((sum, { id }) => sum + shareOf(id), 0);
  return rows.map(({ id, p, q }) =>
    total ? total * (id === null ? others : shareOf(id)) : Math.max(0, weight * (p ?? 0) - (q ?? p ?? 0)) || 0,
  );
}

function candidateNode({ id, text, p, q }, token, drawn, left, fork) {
  const here = id !== null && id === token.id,
    picked = drawn && id === drawn.id;
  const name = make('bdi', 'sl-name', [
    picked && make('span', 'sl-picked', ['↻ ', make('span', 'sl-picked-word', 'drawn ')]),
    id === null ? text : visible(text).trim() || visible(text),
    here && make('span', 'sl-unseen', ' (this token)'),
  ]);
  const bar = make('span', 'sl-mass', [make('i', 'sl-mass-q'), make('i', 'sl-covered'), make('i', 'sl-left-over')], {
    '--q': q ?? 0,
    '--covered': (p ?? 0) - left,
    '--left': left,
    'aria-hidden': 'true',
  });
  const figure = (symbol, value) =>
    make('span', `sl-figure sl-${symbol}`, value === undefined ? '' : percent(Math.max(0, value)));
  return make('li', [here && 'sl-here', picked && 'sl-drawn', id === null && 'sl-others'].filter(Boolean).join(' '), [
    name,
    figure('q', q),
    bar,
    figure('p', p),
    fork && forkButton(text, () => fork(id)),
  ]);
}

const FORK = 'M4 2v12M4 10c0-4 8-2 8-7M9.5 5.5 12 3l2.5 2.5';
function forkButton(text, action) {
  const icon = document.createElementNS('http://www.w3.org/2000/svg', 'svg'),
    path = document.createElementNS(icon.namespaceURI, 'path');
  icon.setAttribute('viewBox', '0 0 16 16');
  icon.setAttribute('aria-hidden', 'true');
  path.setAttribute('d', FORK);
  icon.append(path);
  const words = `Force “${isolate(visible(text))}” here and go on from it`;
  return makeButton([icon], action, 'sl-fork', { 'aria-label': words, title: words });
}

function residualSentence({ rows, total }, drawn, { weight, isLeft }) {
  const share =
    rows.find(row => row.id === drawn.id)?.share ??
    (total && !isLeft ? (weight * drawn.p - drawn.q) / total : undefined);
  const part = share === undefined ? '' : `; ${quote(drawn)} has ${spokenPercent(share)} of it`;
  return `Residual (hatched): ${weight < 1 ? `${format(weight)} · ` : ''}${isLeft ? 'p′' : 'p'} above q${total ? `, ${format(total)}` : ''}${part}.`;
}
