// Shows a branch beside its run: the heads of both lanes, and what keeping and dropping a branch do.
/** @import { Engine, Parts } from './parts.js' */
import { endCaptions } from './captions.js';
import { makeLaneHeads } from './lane_heads.js';

/** @param {HTMLElement} root
 * @param {Pick<Parts, 'timeline' | 'branch' | 'playback' | 'rows' | 'outputs' | 'inspection'>} parts
 * @param {Engine | null} engine */
export function makeBranchLane(root, { timeline, branch, playback, rows, outputs, inspection }, engine) {
  const heads = makeLaneHeads(
    root.querySelector('.sl-lane-heads'),
    engine && {
      keep: () => {
        engine.keep();
        rows.focus();
      },
      drop: () => {
        engine.drop();
        end();
      },
    },
  );

  // After a branch came or went.
  function rebuild() {
    outputs.choose(branch.on ? 'branch' : 'run');
    outputs.resetBranch();
    rows.rebuild();
    showHeads();
    if (!branch.on) return playback.redraw();
    endCaptions(root);
    playback.move(timeline.steps, 'reader');
    inspection.unlock();
    rows.scrollTo(branch.from);
  }

  function end() {
    if (!branch.on) return;
    const { from } = branch;
    inspection.unlock();
    branch.clear();
    rebuild();
    rows.focus();
    rows.scrollTo(from);
  }

  function showHeads() {
    heads.show(branch, timeline.about);
    root.toggleAttribute('data-branch', branch.on);
  }

  return { rebuild, showHeads };
}
