// Says where the playhead is, and how far a token has come there. Knows no DOM.
import { stageOf } from './timeline.js';

export function makePlayhead(timeline, branch, playback) {
  const place = () => timeline.locate(playback.at);

  function stageNow(token) {
    const { index, step } = place();
    if (token.branch) return branch.stage(token, { index, step });
    if (token.round > index) return 'hidden';
    return stageOf(timeline.rounds[token.round], token, token.round < index ? Infinity : step);
  }

  return {
    place,
    stageNow,
    roundOf: token => (token.branch && token !== branch.forced ? branch.timeline : timeline).rounds[token.round],
    isAtEnd: () => playback.at >= timeline.steps,
  };
}
