// Runs the player: the playhead moves rows, outputs, transport and inspector; the reader and the server's lines move it.
/** @import { Engine, Parts } from './parts.js' */
/** @import { Mover } from './playback.js' */
/** @import { Timeline, Token } from './rounds.d.ts' */
/** @import { Stage } from '../lib/statuses.js' */
import { isCalm, makeFind } from '../lib/dom.js';
import { explainMarks } from './meanings.js';
import { makeNews } from './news.js';
import { makeParts } from './parts.js';
import { listenToReader } from './player_input.js';
import { makeReader } from './reader.js';

const NOTHING = () => {};

/** @typedef {{ timeline: Timeline, index: number, stageNow: (token: Token) => Stage | 'hidden' }} Place */
/** ``askAgain()``: rounds were lost on the way; ``runStarted()``: a run takes the place of the one on screen;
 * ``onStatus(status)``: a sentence came; ``onPlace(place)``: the playhead moved.
 * @param {HTMLElement} root
 * @param {{ askAgain?: () => void, runStarted?: () => void, onStatus?: (status: import('./lines.d.ts').Status) => void,
 *   onPlace?: (place: Place) => void, engine?: Engine | null }} [options] */
export function makePlayer(
  root,
  { askAgain = NOTHING, runStarted = NOTHING, onStatus = NOTHING, onPlace = NOTHING, engine = null } = {},
) {
  const parts = makeParts(root, engine);
  const { timeline, branch, playback, playhead, rows, outputs, labels, inspection } = parts;
  const tellPlace = () => onPlace({ timeline, index: playhead.place().index, stageNow: playhead.stageNow });
  playback.listen(by => {
    showPlace(root, parts, by);
    tellPlace();
  });
  listenToReader(root, parts);
  explainMarks(root, parts.tooltip);
  const read = makeReader(timeline, branch, makeNews(root, parts, { askAgain, runStarted, onStatus }));

  outputs.choose('run');
  playback.redraw();
  labels.show();
  /** @param {number} index */
  const toRound = index => playback.move(timeline.startOf(index + 1), 'reader');
  return { read, playback, timeline, rows, lock: inspection.lockByButton, toRound, tellPlace };
}

/** With reduced motion a round appears at once instead of growing. @param {Parts} parts */
function shownSteps({ timeline, playback, playhead }) {
  if (!playback.playing || !isCalm()) return playback.at;
  const { index, step } = playhead.place();
  return index >= 0 && step < timeline.rounds[index].steps ? timeline.startOf(index) : playback.at;
}

/** @param {HTMLElement} root @param {Parts} parts @param {Mover} by */
function showPlace(root, parts, by) {
  const { timeline, playhead, rows, outputs, inspection, tooltip, transport, strip, labels, opening } = parts;
  const steps = shownSteps(parts);
  const at = timeline.locate(steps);
  if (by === 'reader') {
    opening.cancel();
    rows.follow();
  }
  rows.show(steps);
  outputs.show(at);
  inspection.follow(at, by === 'reader');
  if (by === 'reader' || by === 'pace') tooltip.hide();
  transport.show(at);
  strip.show(playhead.place());
  labels.showEnd();
  makeFind(root)('.sl-empty').hidden = at.index >= 0;
  root.dataset.rounds = String(timeline.rounds.length);
}
