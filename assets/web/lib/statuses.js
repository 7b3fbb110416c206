// Holds the table of engine/trace/events.py, by a token's status or by the stage
// before it has one; a test compares the two.
/** @import { Status } from '../player/trace.d.ts' */

/** @typedef {Status | 'forbidden' | 'forced' | 'waiting' | 'scored'} Stage
 * @typedef {{ drafted?: boolean, tested?: boolean, emitted?: boolean, mark: string, word: string }} Row
 * @type {Record<Stage, Row>} */
export const STATUSES = {
  accepted: { drafted: true, tested: true, emitted: true, mark: '✓', word: 'accepted' },
  rescued: { drafted: true, tested: true, emitted: true, mark: '◎', word: 'rescued' },
  rejected: { drafted: true, tested: true, emitted: false, mark: '✗', word: 'rejected' },
  resampled: { drafted: false, tested: false, emitted: true, mark: '↻', word: 'resampled' },
  bonus: { drafted: false, tested: false, emitted: true, mark: '+', word: 'bonus' },
  discarded: { drafted: true, tested: false, emitted: false, mark: '┊', word: 'discarded' },
  plain: { drafted: false, tested: false, emitted: true, mark: '', word: 'plain' },
  closing: { drafted: false, tested: false, emitted: true, mark: '·', word: 'closing' },
  forbidden: { drafted: true, tested: false, emitted: false, mark: '⊘', word: 'forbidden' },
  forced: { drafted: false, tested: false, emitted: true, mark: '⤳', word: 'forced' },
  waiting: { mark: '?', word: 'draft' },
  scored: { mark: '?', word: 'draft, scored' },
};
// Beside the status of drafts that a constraint demanded.
export const FROM_GRAMMAR = { mark: '§', word: 'from the grammar' };
/** @typedef {{ status: Stage, id?: number | null }} AnyToken */
/** @param {'drafted' | 'tested' | 'emitted'} flag @returns {(token: AnyToken) => boolean} */
const has = flag => token => STATUSES[token.status][flag];
export const isDrafted = has('drafted');
export const isTested = has('tested');
export const isEmitted = has('emitted');
/** @param {AnyToken} token */
export const isUntested = token => isDrafted(token) && !isTested(token);
/** @param {AnyToken} token */
export const isUnknown = token => token.id === null && !isEmitted(token); // a guess that a server rejected
