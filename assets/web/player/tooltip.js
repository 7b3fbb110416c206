// Shows a token's numbers beside it, under the pointer or the keyboard.
import { make } from '../lib/dom.js';
import { format } from '../lib/format.js';
import { STATUSES } from '../lib/statuses.js';
import { quote, tokenSentence } from './sentences.js';

export function makeTooltip(tooltip, frame) {
  let anchor = null;

  function show(node, token, stage, greedy) {
    anchor = node;
    const numbers = [
      ['p', 'target', token.p, stage !== 'waiting'],
      ['q', 'draft', token.q, true],
      ['min(1, p/q)', '', token.accept, stage !== 'waiting'],
      ['threshold', '', token.threshold, stage !== 'waiting' && !greedy],
      ['h', 'of its block', token.h, stage !== 'waiting' && !greedy],
      ['u', 'draw', token.u, stage === token.status],
    ];
    const list = make(
      'dl',
      '',
      numbers
        .filter(([, , number, known]) => number !== undefined && known)
        .flatMap(([symbol, word, number]) => [make('dt', '', `${symbol} ${word}`), make('dd', '', format(number))]),
    );
    tooltip.replaceChildren(
      make('p', 'sl-tip-head', `${quote(token)}  ${STATUSES[stage].word}`),
      list,
      make('p', 'sl-tip-foot', tokenSentence(token, stage, greedy)),
    );
    reveal();
  }

  /** @param {HTMLElement} node @param {string} words */
  function explain(node, words) {
    anchor = node;
    tooltip.replaceChildren(make('p', '', words));
    reveal();
  }

  function reveal() {
    tooltip.hidden = false;
    place();
  }

  function place() {
    const at = anchor.getBoundingClientRect(),
      size = tooltip.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left), window.innerWidth - size.width - 8);
    const under = at.bottom + 8 + size.height < window.innerHeight;
    tooltip.style.left = `${left}px`;
    tooltip.style.top = `${under ? at.bottom + 8 : Math.max(8, at.top - size.height - 8)}px`;
  }

  function hide() {
    tooltip.hidden = true;
    anchor = null;
  }

  // Moves with its token while that is in sight.
  function follow() {
    if (!anchor) return;
    const at = anchor.getBoundingClientRect(),
      sight = frame.getBoundingClientRect();
    if (!anchor.isConnected || at.bottom < sight.top || at.top > sight.bottom) hide();
    else place();
  }
  frame.addEventListener('scroll', follow);
  window.addEventListener('scroll', follow, { passive: true });
  return { show, explain, hide, follow };
}
