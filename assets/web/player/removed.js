// Shows what a constraint took of p in a token's place, and the likeliest words among that.
/** @import { Distribution } from './trace.d.ts' */
import { make } from '../lib/dom.js';
import { isolate, spokenPercent, visible } from '../lib/format.js';
import { STATUSES } from '../lib/statuses.js';

const WORDS = 3; // that are named; a trace has a few more
const LEAST = 1e-3; // a share that is worth a word

/** @param {Distribution} removed */
const removedShare = ({ top, rest }) => Math.min(1, top.reduce((sum, [, , mass]) => sum + mass, 0) + rest);

/** @param {Distribution} removed */
function removedSentence(removed) {
  const share = removedShare(removed),
    words = removed.top.slice(0, WORDS).filter(([, , mass]) => mass >= LEAST);
  if (share < LEAST) return 'The grammar removed nothing of p here.';
  const first = words.map(([, text, mass]) => `“${isolate(visible(text))}”\u00a0${spokenPercent(mass)}`).join(', ');
  return `The grammar removed ${spokenPercent(share)} of p${first ? `, first of all ${first}` : ''}.`;
}

/** @param {Distribution} removed */
export function removedNode(removed) {
  const share = removedShare(removed),
    bar = { '--removed': share, 'aria-hidden': 'true' };
  return make('div', 'sl-removed', [
    make('p', 'sl-aside', `${STATUSES.forbidden.mark} ${removedSentence(removed)}`),
    share >= LEAST && make('div', 'sl-removed-bar', [make('i')], bar),
  ]);
}
