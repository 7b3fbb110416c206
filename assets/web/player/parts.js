// Makes the parts of the player, each after those it needs, and connects none of them to the reader or the server.
import { makeFind } from '../lib/dom.js';
import { makeBranch } from './branch.js';
import { makeBranchLane } from './branch_lane.js';
import { makeInspection } from './inspection.js';
import { makeLabels } from './labels.js';
import { makeOpening } from './opening.js';
import { makeOutputTabs } from './output_tabs.js';
import { makePlayback } from './playback.js';
import { makePlayhead } from './playhead.js';
import { makeRoundsView } from './rounds_view.js';
import { makeStrip } from './strip.js';
import { makeTimeline } from './timeline.js';
import { makeTooltip } from './tooltip.js';
import { makeTransport } from './transport.js';

/** What the engine does with a branch and with a run beside others.
 * @typedef {{ fork: (place: number, id: number) => void, keep: () => void, drop: () => void, alone: () => void }} Engine
 * @typedef {ReturnType<typeof makeParts>} Parts */
/** @param {HTMLElement} root @param {Engine | null} engine null where none answers */
export function makeParts(root, engine) {
  const find = makeFind(root);

  const timeline = makeTimeline();
  const branch = makeBranch(timeline);
  const playback = makePlayback(timeline);
  const playhead = makePlayhead(timeline, branch, playback);

  const frame = find('.sl-rows');
  const rows = makeRoundsView(frame, find('.sl-list'), timeline, branch);
  const outputs = makeOutputTabs(root, timeline, branch);
  const tooltip = makeTooltip(find('.sl-tip'), frame);
  const labels = makeLabels(root, timeline, playhead);
  const transport = makeTransport(root, timeline, playback);
  const strip = makeStrip(find('.sl-strip'), timeline, engine && measureAlone);
  const shown = { timeline, branch, playback, playhead, rows, outputs, tooltip, labels, transport, strip };

  const inspection = makeInspection(root, shown, engine);
  const lane = makeBranchLane(root, { ...shown, inspection }, engine);
  const opening = makeOpening(root, shown);
  return { ...shown, inspection, lane, opening };

  function measureAlone() {
    rows.focus();
    engine.alone();
  }
}
