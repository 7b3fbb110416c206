// Shows the children of one node of a tree as they were tried: p and q at each one's turn, and its u.
/** @import { Round, Token } from './rounds.d.ts' */
import { make } from '../lib/dom.js';
import { format, tokenText } from '../lib/format.js';
import { isDrafted, isTested, STATUSES } from '../lib/statuses.js';

/** @param {Token} token @param {Round} round */
export function siblingsOf(token, round) {
  if (!round.parents || !isDrafted(token) || !round.tokens.includes(token)) return []; // a forbidden draft has no turn
  const parent = round.parents[token.index];
  return round.tokens.filter((other, i) => round.parents[i] === parent);
}

/** After each rejection p ← normalised max(p − q, 0), so p′ ÷ q′ is the chance to stay; of p′ above q′ only that is
 * known.
 * @param {Token} token */
function leftOfP({ p, q, accept, sibling }) {
  if (!sibling || accept === undefined || q === undefined) return p === undefined ? '' : format(p);
  return accept < 1 || q === 1 ? format(accept * q) : `≥ ${format(q)}`;
}

/** @param {Token} token @param {Round} round */
export function siblingsNode(token, round) {
  const cells = (...texts) => texts.map(text => make('td', '', text));
  const rows = siblingsOf(token, round).map(other =>
    make('tr', other === token ? 'sl-here' : '', [
      make('th', 'sl-name', [make('bdi', '', tokenText(other))], { scope: 'row' }),
      ...(isTested(other)
        ? cells(leftOfP(other), format(other.q), format(other.u), STATUSES[other.status].word)
        : cells('', '', '', 'untested')),
    ]),
  );
  return make('table', 'sl-siblings', [
    make('caption', '', 'Siblings: p′ is the share of p that the rejected ones left'),
    make('thead', '', [
      make(
        'tr',
        '',
        ['in order', 'p′', 'q′', 'u', ''].map(text => make('th', '', text, { scope: 'col' })),
      ),
    ]),
    make('tbody', '', rows),
  ]);
}
