// Draws another u for a token, with p and q held fixed, and says what would have come of it.
/** @import { Distribution } from './trace.d.ts' */
/** @import { Round, Token } from './rounds.d.ts' */
import { make, makeButton } from '../lib/dom.js';
import { format, isolate, percent, spokenPercent, tokenText, visible } from '../lib/format.js';
import { isDrafted } from '../lib/statuses.js';
import { blockRollSentence, rollBlock } from './block.js';
import { drawFrom, keptShare, probabilitiesOf } from './probabilities.js';
import { firstToPass, isOnPath } from './timeline.js';

/** What a token that closes its round was drawn from. @param {Token} token @param {Round} round */
function sourceOf(token, round) {
  const { p, residual } = probabilitiesOf(token, round);
  return token.status === 'resampled' ? residual : p;
}

/** @param {Token} token @param {Round} round */
export function canReroll(token, round) {
  if (token.u === undefined) return false;
  return isDrafted(token) ? token.accept !== undefined : Boolean(sourceOf(token, round));
}

/** @typedef {{ times: number, accepted: number, tokens: Map<string | null, number> }} Tally */
/** @param {() => void} changed is called after the u changed */
export function makeReroll(changed) {
  /** @type {number | null} */
  let u = null; // the one drawn last, or null for the recorded one
  /** @type {number[] | null} */
  let block = null; // of a block, the u of every draft
  /** @type {Tally | null} */
  let tally = null; // {times, accepted, tokens: text → times}

  function reset() {
    u = block = tally = null;
  }

  /** @param {Token} token @param {Round} round @param {number} times */
  function roll(token, round, times) {
    tally ||= { times: 0, accepted: 0, tokens: new Map() };
    for (let i = 0; i < times; i++) {
      u = Math.random();
      tally.times++;
      if (!isDrafted(token)) {
        const drawn = drawFrom(sourceOf(token, round), u);
        const name = drawn ? visible(drawn[1]) : null;
        tally.tokens.set(name, (tally.tokens.get(name) || 0) + 1);
      } else if (token.h !== undefined) {
        block = rollBlock(round);
        u = block[token.index];
        if (isOnPath(round, token.index, firstToPass(round, block))) tally.accepted++;
      } else if (u < token.accept) tally.accepted++;
    }
    changed();
  }

  function sentence(token, round) {
    if (u === null) return '';
    if (!isDrafted(token)) return closingSentence(token, sourceOf(token, round), u, tally);
    return block ? blockRollSentence(round, token, block, tally) : draftSentence(token, round, u, tally);
  }

  // ``force``: another button, or false.
  function node(token, round, force) {
    const isRolled = u !== null;
    const back = () => {
      reset();
      changed();
    };
    return make('div', 'sl-roll', [
      make('div', 'sl-buttons', [
        makeButton('Re-roll u', () => roll(token, round, 1), 'sl-button', {
          title: 'p and q stay as they are; only the dice are thrown again.',
        }),
        isRolled && makeButton('100 times', () => roll(token, round, 100)),
        isRolled && makeButton('Back to the recorded u', back),
        force,
      ]),
      make('p', 'sl-rolled', sentence(token, round), { 'aria-live': 'polite' }),
    ]);
  }

  return {
    reset,
    node,
    get u() {
      return u;
    },
    get block() {
      return block;
    },
  };
}

/** @param {Token} token @param {Round} round @param {number} u @param {Tally} tally */
function draftSentence(token, round, u, { accepted, times }) {
  const isAccepted = u < token.accept,
    flipped = isAccepted !== (token.status === 'accepted');
  let words = isAccepted
    ? `u = ${format(u)} is below ${format(token.accept)}: it would be accepted.`
    : `u = ${format(u)} is not below ${format(token.accept)}: it would be rejected.`;
  words += flipped ? ' The verdict flips.' : ' The same verdict.';
  const residual = probabilitiesOf(token, round).residual;
  if (!isAccepted && flipped && residual) {
    const drawn = drawFrom(residual, Math.random());
    words += drawn
      ? ` Its replacement, drawn from the residual: “${isolate(visible(drawn[1]))}”.`
      : ` Its replacement would be one of the tokens the trace did not keep (${percent(residual.rest)} of the residual).`;
  }
  if (flipped) words += ' What would follow needs the models, so it is not shown.';
  return `${words} So far ${accepted} of ${times} accepted; expected ${spokenPercent(token.accept)}.`;
}

/** @param {Token} token @param {Distribution} source @param {number} u @param {Tally} tally */
function closingSentence(token, source, u, { times, tokens }) {
  const drawn = drawFrom(source, u);
  const words = drawn
    ? `This time: “${isolate(visible(drawn[1]))}”.`
    : 'This time: a token that the trace did not keep.';
  const { top, rest } = source,
    own = visible(tokenText(token)),
    all = top.reduce((sum, [, , mass]) => sum + mass, rest);
  const expectedShare = name =>
    name === null ? rest : top.filter(([, text]) => visible(text) === name).reduce((sum, [, , mass]) => sum + mass, 0);
  const often = [...tokens]
    .sort((a, b) => Number(b[0] === own) - Number(a[0] === own) || b[1] - a[1])
    .slice(0, 3)
    .map(
      ([name, count]) =>
        `${name === null ? 'others' : `“${isolate(name)}”`} ${count} (${spokenPercent(expectedShare(name) / all)} expected)`,
    )
    .join(', ');
  return (
    `${words} Of ${times}: ${often}. The trace keeps ${top.length} of the possible tokens ` +
    `(${percent(keptShare(source))} of the mass); the rest is one lot here.`
  );
}
