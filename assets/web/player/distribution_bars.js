// Draws distributions as bars: p and q side by side, and the residual.

const BARS = 6;   // candidates shown of each; the trace keeps a few more
const note = text => make('p', 'sl-aside', text);

function besideNode(token, { p, q }) {
  return make('div', 'sl-beside', [p && distribution(token, 'p', 'target', p), q && distribution(token, 'q', 'draft', q)]);
}

function distribution(token, symbol, word, { top, rest }) {
  const at = top.findIndex(candidate => candidate[0] === token.id);
  const rows = top.slice(0, BARS).map(candidate => candidateRow(candidate, candidate[0] === token.id));
  if (at >= BARS) rows.push(candidateRow(top[at], true));
  if (at < 0 && token[symbol] !== undefined) rows.push(candidateRow([token.id, shown(token), token[symbol]], true));
  const others = rest + top.slice(BARS).reduce((sum, candidate, i) => sum + (i + BARS === at ? 0 : candidate[2]), 0)
    - (at < 0 ? token[symbol] || 0 : 0);
  if (others > 5e-5) rows.push(candidateRow([-1, 'others', others], false, true));
  return make('div', `sl-distribution sl-${symbol}`, [make('h3', '', [make('i', '', symbol), ` ${word}`]), make('ul', '', rows)]);
}

function candidateRow([, text, mass], here, rest = false) {
  const name = make('bdi', 'sl-name', [rest ? text : visible(text), here && make('span', 'sl-unseen', ' (this token)')]);
  const track = make('span', 'sl-mass', [make('i')], { '--mass': mass });
  return make('li', here ? 'sl-here' : rest ? 'sl-others' : '', [name, track, make('span', 'sl-figure', percent(mass))]);
}

// The residual max(p − q, 0), and the token drawn from it.
function leftOverNode(token, round, probabilities) {
  const { rows, total } = residualRows(probabilities);
  const drawn = token.status === 'resampled' ? token : round.tokens.find(other => other.status === 'resampled');
  const title = make('h3', '', 'Residual: what is left of p where q is taken away');
  const later = drawn && rows.slice(BARS).find(row => row.id === drawn.id);
  const list = [...rows.slice(0, BARS), later].filter(Boolean).map(row => residualRow(row, drawn));
  if (drawn && !rows.some(row => row.id === drawn.id)) list.push(residualRow(beyond(drawn, total), drawn));
  if (probabilities.residual.rest > 5e-5) list.push(candidateRow([-1, 'others', probabilities.residual.rest], false, true));
  const scale = total ? `p − q adds up to ${format(total)}; divided by that, it is the residual (right).` : '';
  return make('div', 'sl-residual', [title, make('ul', '', list), note(`Hatched: p − q. Grey: the part that q covers. ${scale}`)]);
}

// The row of a drawn token that is not among the kept candidates; the trace has its own p and q.
function beyond(drawn, total) {
  const left = drawn.p !== undefined && drawn.q !== undefined ? drawn.p - drawn.q : undefined;
  return { id: drawn.id, text: shown(drawn), p: drawn.p, q: drawn.q, share: total ? left / total : undefined };
}

function residualRow({ id, text, share, p, q }, drawn) {
  const here = drawn && id === drawn.id, known = p !== undefined && q !== undefined;
  const picked = here && make('span', 'sl-picked', '↻ drawn:');       // first, because the end may be cut off
  const track = make('span', 'sl-mass', [make('i', 'sl-covered'), make('i', 'sl-left-over')], {
    '--covered': known ? Math.min(p, q) : 0, '--left': known ? Math.max(0, p - q) : share ?? 0,
    title: known ? `p ${format(p)} − q ${format(q)} = ${format(p - q)}` : 'p and q of this token were not kept',
  });
  return make('li', here ? 'sl-drawn' : '', [make('bdi', 'sl-name', [picked, visible(text)]), track,
    make('span', 'sl-figure', share === undefined ? '–' : percent(share))]);
}
