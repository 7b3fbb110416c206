// Shows a branch beside its run: the heads of both lanes, and what forcing a token, keeping and dropping a branch do.
import { isUntested } from '../lib/statuses.js';
import { endCaptions } from './captions.js';
import { makeLaneHeads } from './lane_heads.js';

// ``player``: {timeline, branch, playback, rows, outputs}; ``unlock()``: lets the inspected token go; ``moved()``: draws
// the place again; ``engine``: see makePlayer.
export function makeBranchLane(root, { timeline, branch, playback, rows, outputs }, { unlock, moved }, engine) {
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

  // What forces a candidate in a token's place; only the output's own places can be gone on from.
  function forkOf(token) {
    if (!engine || !timeline.ended) return null;
    if (token.branch) return branch.ended ? 'Keep the branch before you force a token in it.' : null;
    if (isUntested(token)) return null;
    return id => {
      unlock();
      engine.fork(token.position, id);
      rows.focus();
    };
  }

  // After a branch came or went.
  function rebuild() {
    outputs.choose(branch.on ? 'branch' : 'run');
    outputs.resetBranch();
    rows.rebuild();
    showHeads();
    if (!branch.on) return moved();
    endCaptions(root);
    playback.move(timeline.steps, 'reader');
    unlock();
    rows.scrollTo(branch.from);
  }

  function end() {
    if (!branch.on) return;
    unlock();
    branch.clear();
    rebuild();
    rows.focus();
  }

  function showHeads() {
    heads.show(branch, timeline.about);
    root.toggleAttribute('data-branch', branch.on);
  }

  return { forkOf, rebuild, showHeads };
}
