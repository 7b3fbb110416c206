// Plays a recorded run once it comes into sight: the first slowly, with captions, others as fast as they ran. With
// reduced motion it shows the run to its end instead.
/** @import { Parts } from './parts.js' */
/** @import { Round } from './rounds.d.ts' */
import { isCalm } from '../lib/dom.js';
import { endCaptions, roundToExplain, showCaptions, wasSeen } from './captions.js';

const SECONDS_TO_READ = 2.8; // the captions, before the recorded run plays on

/** @param {HTMLElement} root
 * @param {Pick<Parts, 'timeline' | 'playback' | 'rows' | 'labels'>} parts */
export function makeOpening(root, { timeline, playback, rows, labels }) {
  let isWaiting = false;
  let isInSight = false;

  function open() {
    const isFirst = !root.dataset.played;
    const explained = isFirst && roundToExplain(timeline);
    playback.settle(isFirst ? undefined : 1);
    root.dataset.played = '1';
    labels.show();
    playback.move(isCalm() ? timeline.steps : explained ? timeline.startOf(explained.index + 1) : 0, 'page');
    if (explained && !wasSeen()) explain(explained);
    if (isCalm()) return;
    isWaiting = true;
    playback.redraw();
    setTimeout(begin, explained ? SECONDS_TO_READ * 1000 : 0);
  }

  /** @param {Round} round */
  function explain(round) {
    const row = rows.nodeOf(round.tokens[0])?.closest('.sl-row');
    if (row) showCaptions(root, row);
  }

  function begin() {
    if (!isWaiting || !isInSight) return;
    isWaiting = false;
    rows.follow();
    playback.play();
  }

  new IntersectionObserver(entries => {
    isInSight = entries.at(-1).isIntersecting;
    if (!root.querySelector('.sl-captions')) begin();
  }).observe(root.querySelector('.sl-rows'));

  return {
    open,
    cancel() {
      isWaiting = false;
    },
    // The first run of a visitor ends the captions for good.
    endCaptionsOfAnother() {
      if (root.dataset.played && !wasSeen()) endCaptions(root);
    },
  };
}
