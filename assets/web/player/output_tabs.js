// Shows the text of the run or of its branch, as the reader chooses.
import { makeOutputView } from './output_view.js';

export function makeOutputTabs(root, timeline, branch) {
  const frame = root.querySelector('.sl-text-box');
  const ofRun = makeOutputView(root.querySelector('.sl-text'), timeline, frame);
  const ofBranch = makeOutputView(root.querySelector('.sl-branch-text'), branch.timeline, frame);

  // Until the forced token is on screen, the branch's text is the run's.
  function show(at) {
    ofRun.show(at);
    if (!branch.on) return;
    const isBefore = branch.stage(branch.forced, at) === 'hidden';
    ofBranch.show(branch.placeOf(at), isBefore ? ofRun.lengthAt(at) : Infinity);
  }

  // ``which``: "run" or "branch".
  function choose(which) {
    root.dataset.output = which;
    for (const name of ['run', 'branch']) {
      root.querySelector(`[data-do="output-${name}"]`).setAttribute('aria-pressed', name === which);
    }
  }

  return {
    show,
    choose,
    mark: token => (token?.branch ? ofBranch : ofRun).mark(token === branch.forced ? null : token),
    resetBranch: ofBranch.reset,
    reset() {
      ofRun.reset();
      ofBranch.reset();
      choose('run');
    },
  };
}
