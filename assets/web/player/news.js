// Shows what reader.js has read: a new run, its rounds and its branch's, its numbers, and a sentence.
/** @import { Parts } from './parts.js' */
/** @import { Events, Status } from './lines.d.ts' */
import { makeFind } from '../lib/dom.js';
import { makeNotice } from '../lib/notice_box.js';

/** ``askAgain``, ``runStarted``, ``onStatus``: see makePlayer.
 * @param {HTMLElement} root
 * @param {Parts} parts
 * @param {{ askAgain: () => void, runStarted: () => void, onStatus: (status: Status) => void }} callbacks
 * @returns {Events} */
export function makeNews(root, parts, { askAgain, runStarted, onStatus }) {
  const { timeline, branch, playback, playhead, labels, lane, strip, opening } = parts;
  const say = makeNotice(makeFind(root)('.sl-notice'));

  function beginRun() {
    opening.cancel();
    timeline.clear();
    branch.clear();
    for (const part of [strip, parts.rows, parts.outputs, parts.transport, playback]) part.reset();
    lane.showHeads();
    parts.inspection.unlock();
    playback.redraw(); // clears the place and the counts of the run before
    labels.show();
    opening.endCaptionsOfAnother();
    runStarted();
  }

  /** @type {Events['arrived']} */
  function showNews({ hasRounds, hasBranchRounds, numbers, status }) {
    if (hasBranchRounds && !hasRounds) playback.redraw();
    if (numbers) strip.read(numbers);
    if (hasRounds || (timeline.ended && numbers)) showRounds(hasRounds);
    else if (numbers) strip.show(playhead.place());
    if (status) showStatus(status);
  }

  /** @param {boolean} hasRounds or else numbers of a run that has ended */
  function showRounds(hasRounds) {
    const { recorded, origin } = timeline.about;
    if (recorded && !origin && hasRounds && !root.dataset.told) return opening.open(); // plays from its first round
    if (hasRounds && playback.at === 0 && !playback.playing) {
      playback.settle();
      playback.follow();
    } else playback.arrivals();
    labels.show();
  }

  /** @param {Status} status */
  function showStatus(status) {
    say(status);
    root.dataset.notice = status.kind;
    onStatus(status);
    // The run before does not play on below an error about another.
    if (status.kind === 'error' && timeline.about.recorded && playback.playing) playback.toggle();
  }

  function showLabels() {
    labels.show();
    lane.showHeads();
  }

  function endRun() {
    labels.show();
    playback.settle();
  }

  return {
    started: beginRun,
    about: showLabels,
    finished: endRun,
    labelled: labels.show,
    branched: lane.rebuild,
    branchEnded: lane.showHeads,
    arrived: showNews,
    missing: askAgain,
  };
}
