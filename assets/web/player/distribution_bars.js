// Draws distributions as bars: p and q side by side, and the residual.

const BARS = 6;   // candidates shown of each; the trace keeps a few more
const note = text => make('p', 'sl-aside', text);

function besideNode(token, { p, q }) {
  const block = make('div', 'sl-beside');
  if (p) block.append(distribution(token, 'p', 'target', p, 'sl-p'));
  if (q) block.append(distribution(token, 'q', 'draft', q, 'sl-q'));
  return block;
}

function distribution(token, symbol, word, { top, rest }, kind) {
  const block = make('div', `sl-distribution ${kind}`), title = make('h3');
  title.append(make('i', '', symbol), ` ${word}`);
  const list = make('ul');
  const few = top.slice(0, BARS);
  const at = top.findIndex(candidate => candidate[0] === token.id);
  for (const candidate of few) list.append(candidateRow(candidate, candidate[0] === token.id));
  if (at >= BARS) list.append(candidateRow(top[at], true));
  if (at < 0 && token[symbol] !== undefined) list.append(candidateRow([token.id, shown(token), token[symbol]], true));
  const others = rest + top.slice(BARS).reduce((sum, candidate, i) => sum + (i + BARS === at ? 0 : candidate[2]), 0)
    - (at < 0 ? token[symbol] || 0 : 0);
  if (others > 5e-5) list.append(candidateRow([-1, 'others', others], false, true));
  block.append(title, list);
  return block;
}

function candidateRow([, text, mass], here, rest = false) {
  const row = make('li', here ? 'sl-here' : rest ? 'sl-others' : '');
  const name = make('bdi', 'sl-name', rest ? text : visible(text));
  if (here) name.append(make('span', 'sl-unseen', ' (this token)'));
  const track = make('span', 'sl-mass');
  track.append(make('i'));
  track.style.setProperty('--mass', mass);
  row.append(name, track, make('span', 'sl-figure', percent(mass)));
  return row;
}

// The residual max(p − q, 0), and the token drawn from it.
function leftOverNode(token, round, probabilities) {
  const block = make('div', 'sl-residual'), { rows, total } = residualRows(probabilities);
  const drawn = token.status === 'resampled' ? token : round.tokens.find(other => other.status === 'resampled');
  const title = make('h3', '', 'Residual: what is left of p where q is taken away');
  const list = make('ul');
  const few = rows.slice(0, BARS);
  const later = drawn && rows.slice(BARS).find(row => row.id === drawn.id);
  for (const row of later ? [...few, later] : few) list.append(residualRow(row, drawn));
  if (drawn && !rows.some(row => row.id === drawn.id)) list.append(residualRow(beyond(drawn, total), drawn));
  if (probabilities.residual.rest > 5e-5) list.append(candidateRow([-1, 'others', probabilities.residual.rest], false, true));
  const scale = total ? `p − q adds up to ${format(total)}; divided by that, it is the residual (right).` : '';
  block.append(title, list, note(`Hatched: p − q. Grey: the part that q covers. ${scale}`));
  return block;
}

// The row of a drawn token that is not among the kept candidates; the trace has its own p and q.
function beyond(drawn, total) {
  const left = drawn.p !== undefined && drawn.q !== undefined ? drawn.p - drawn.q : undefined;
  return { id: drawn.id, text: shown(drawn), p: drawn.p, q: drawn.q, share: total ? left / total : undefined };
}

function residualRow({ id, text, share, p, q }, drawn) {
  const here = drawn && id === drawn.id;
  const row = make('li', here ? 'sl-drawn' : '');
  const name = make('bdi', 'sl-name', visible(text));
  if (here) name.prepend(make('span', 'sl-picked', '↻ drawn:'));      // first, because the end may be cut off
  const track = make('span', 'sl-mass');
  const known = p !== undefined && q !== undefined;
  track.append(make('i', 'sl-covered'), make('i', 'sl-left-over'));
  track.style.setProperty('--covered', known ? Math.min(p, q) : 0);
  track.style.setProperty('--left', known ? Math.max(0, p - q) : share ?? 0);
  track.title = known ? `p ${format(p)} − q ${format(q)} = ${format(p - q)}` : 'p and q of this token were not kept';
  row.append(name, track, make('span', 'sl-figure', share === undefined ? '–' : percent(share)));
  return row;
}
