// Chooses the token that the inspector shows: the one of a step by hand, or one that is locked by a click.
/** @import { Engine, Parts } from './parts.js' */
/** @import { Position, Token } from './rounds.d.ts' */
import { makeFind } from '../lib/dom.js';
import { isUnknown, isUntested } from '../lib/statuses.js';
import { makeInspector } from './inspector.js';
import { currentOf } from './timeline.js';

/** @param {HTMLElement} root
 * @param {Pick<Parts, 'timeline' | 'branch' | 'playback' | 'playhead' | 'rows' | 'outputs' | 'tooltip'>} parts
 * @param {Engine | null} engine */
export function makeInspection(root, { timeline, branch, playback, playhead, rows, outputs, tooltip }, engine) {
  const find = makeFind(root);
  const panel = find('.sl-inspector');
  const inspector = makeInspector(find('.sl-inspected-token'), lockByButton, forkOf);
  /** @type {Token | null} */
  let locked = null;

  /** What forces a candidate in a token's place; only the output's own places can be gone on from.
   * @param {Token} token */
  function forkOf(token) {
    if (!engine || !timeline.ended || timeline.about.server) return null; // a server's models are not here
    if (token.branch) return branch.ended ? 'Keep the branch before you force a token in it.' : null;
    if (isUntested(token)) return null;
    /** @param {number} id */
    return id => {
      unlock();
      engine.fork(token.position, id);
      rows.focus();
    };
  }

  /** @param {Token} token */
  function inspect(token) {
    const stage = playhead.stageNow(token);
    if (stage === 'hidden') return unlock();
    inspector.show(token, playhead.roundOf(token), timeline.about, stage);
    root.toggleAttribute('data-inspected', true); // the output leaves it the room
  }

  function clear() {
    inspector.clear(lastRejected());
    root.toggleAttribute('data-inspected', false);
  }

  /** @param {Token | null} token */
  function mark(token) {
    rows.mark(token);
    outputs.mark(token);
  }

  /** @param {Token} token */
  function lock(token) {
    locked = token;
    mark(token);
    inspect(token);
    panel.dataset.open = root.dataset.chosen = 'locked';
    panel.scrollTop = 0; // on a phone it scrolls
    tooltip.hide();
    keepInSight(rows.nodeOf(token));
  }

  /** The button that was pressed is gone, so the focus goes to the one that closes. The run waits meanwhile.
   * @param {Token} token */
  function lockByButton(token) {
    if (playback.playing) playback.toggle();
    lock(token);
    find('.sl-close').focus({ preventScroll: true });
  }

  const isSheet = () => getComputedStyle(panel).position === 'fixed';

  /** Keeps the token in sight, on a phone above the inspector, which covers the lower part.
   * @param {HTMLElement | undefined} node */
  function keepInSight(node) {
    node?.scrollIntoView({ block: 'nearest' });
    if (!node || !isSheet()) return;
    const at = node.getBoundingClientRect();
    const hidden = at.bottom + 12 - panel.getBoundingClientRect().top;
    if (hidden > 0 || at.top < 12) window.scrollBy(0, hidden);
  }

  // On a phone the inspector covers the charts, so it goes when the rounds have left the window.
  window.addEventListener('scroll', leaveWithRounds, { passive: true });
  function leaveWithRounds() {
    if (!root.isConnected) window.removeEventListener('scroll', leaveWithRounds);
    else if (locked && isSheet() && find('.sl-rows').getBoundingClientRect().bottom < 0) unlock();
  }

  function unlock() {
    locked = null;
    mark(null);
    panel.dataset.open = root.dataset.chosen = '';
    clear();
  }

  // The last draft rejected so far, or while playing the one that is on offer, because another would come all the time.
  function lastRejected() {
    const { index } = playhead.place();
    if (index < 0) return null;
    const { rejected, rejectedBefore } = timeline.rounds[index];
    const offered = playback.playing || playback.live ? inspector.offered : null;
    return [offered, rejected, rejectedBefore].find(isRejected) ?? null;
  }

  /** @param {Token | null} [token] */
  const isRejected = token => token && !isUnknown(token) && playhead.stageNow(token) === 'rejected';

  /** A step by hand inspects the token of that step. @param {Position} place */
  function showStep({ index, step }) {
    if (locked) unlock();
    if (index < 0 || playback.live) return clear();
    const token = currentOf(timeline.rounds[index], step);
    mark(token);
    inspect(token);
  }

  /** After the playhead moved to ``at``. @param {Position} at @param {boolean} isByHand the reader moved it */
  function follow(at, isByHand) {
    if (isByHand) showStep(at);
    else if (locked) {
      if (playhead.stageNow(locked) !== inspector.stage) inspect(locked);
    } else if (inspector.stage && playback.playing) unlock();
    if (!inspector.stage) clear();
  }

  return {
    follow,
    unlock,
    lockByButton,
    /** @param {Token} token */
    isLocked: token => token === locked,
    /** @param {Token} token */
    toggle: token => (token === locked ? unlock() : lock(token)),
    // Unlocks the token. Whether the focus was in the panel, whose buttons are gone then.
    escape() {
      const isLeaving = locked && panel.contains(document.activeElement);
      if (locked) unlock();
      return Boolean(isLeaving);
    },
  };
}
