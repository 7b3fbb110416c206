// Draws the transport: the place, the slider, the play button and the pace; reads each round out.
import { make, setText } from '../lib/dom.js';
import { PACES } from './playback.js';
import { paceSentence, roundSentence } from './sentences.js';

const SILENCE = 1000;    // milliseconds between two announcements

export function makeTransport(root, timeline, playback) {
  const find = selector => root.querySelector(selector);
  const words = find('.sl-place'), pace = find('.sl-pace'), playButton = find('[data-do="play"]'), scrub = find('.sl-scrub');
  let announced = -1, waiting = {}, timer = null, saidAt = -Infinity;   // the round announced last; sentences to be said

  pace.append(...PACES.map(rate => make('option', '', paceSentence(rate), { value: rate })));
  scrub.addEventListener('input', () => playback.move(Number(scrub.value), 'reader'));
  pace.addEventListener('input', () => { playback.pace = Number(pace.value); });

  function show(at) {
    const rounds = timeline.rounds.length, where = rounds ? `Round ${at.index + 1} of ${rounds}` : 'No rounds yet';
    setText(words, playback.live ? `${where}, live` : where);
    scrub.max = timeline.steps;
    scrub.value = playback.at;
    scrub.setAttribute('aria-valuetext', where);
    showButton(playback.playing || playback.live);
    pace.value = playback.pace;
    announce(at);
  }

  function showButton(isMoving) {
    if (playButton.dataset.moving === String(isMoving)) return;
    playButton.dataset.moving = isMoving;
    playButton.setAttribute('aria-label', isMoving ? 'Pause' : 'Play');
    playButton.title = isMoving ? 'Pause (Space)' : 'Play (Space)';
  }

  function announce({ index, step }) {
    const done = index >= 0 && step < timeline.rounds[index]?.steps ? index - 1 : index;
    if (done === announced || done < 0) return;
    announced = done;
    announceLater({ round: roundSentence(timeline.rounds[done]) });
  }

  // At most one announcement a second: of the newest round, and then of the run's end.
  function announceLater(sentences) {
    waiting = { ...waiting, ...sentences };
    timer ??= setTimeout(() => {
      setText(find('.sl-live'), [waiting.round, waiting.end].filter(Boolean).join(' '));
      [waiting, timer, saidAt] = [{}, null, performance.now()];
    }, Math.max(0, saidAt + SILENCE - performance.now()));
  }

  return {
    show,
    sayEnd: sentence => announceLater({ end: sentence }),
    reset() { announced = -1; waiting = {}; },
  };
}
