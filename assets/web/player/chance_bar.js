// Draws the chance of one draft, min(1, p/q) or the h of a block, as a bar from 0 to 1, and where u fell.
import { make } from '../lib/dom.js';
import { format, ratioPart } from '../lib/format.js';

// ``u``: undefined before the verdict; ``isRolled``: it was drawn again, and the trace's own is shown as well.
export function chanceNode(token, u, isRolled, isBlock) {
  const below = isBlock ? token.h : token.accept,
    [passes, fails] = isBlock ? ['passes', 'fails'] : ['accepted', 'rejected'];
  const exact = make('p', u > 0.5 ? 'sl-formula sl-aside-u' : 'sl-formula', [
    isBlock ? 'h = ' : 'min(1, p/q) = ',
    make('strong', '', format(below)),
  ]);
  if (!token.sibling && !isBlock)
    exact.lastChild.before(make('span', '', `min(1, ${ratioPart(token.p)} / ${ratioPart(token.q)}) = `));
  const word = (share, text) => (share >= 0.2 ? text : '');
  const spoken = u === undefined ? '' : `; u is ${format(u)}`;
  const track = make(
    'div',
    'sl-chance',
    [
      make('span', 'sl-part-accepted', word(below, passes)),
      make('span', 'sl-part-rejected', word(1 - below, fails)),
      isRolled && token.u !== undefined && make('i', 'sl-tick sl-recorded', '', { '--u': token.u }),
      u !== undefined && make('i', 'sl-tick', [make('b', u > 0.5 ? 'sl-left' : '', `u = ${format(u)}`)], { '--u': u }),
    ],
    {
      '--accept': below,
      role: 'img',
      'aria-label': `${isBlock ? 'Passes' : 'Accepted'} below ${format(below)}${spoken}`,
    },
  );
  return make('div', 'sl-accept', [
    exact,
    track,
    make(
      'div',
      'sl-scale',
      ['0', '0.5', '1'].map(text => make('span', '', text)),
    ),
  ]);
}
