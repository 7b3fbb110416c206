// Draws the transport: the place, the slider, the play button and the pace; reads each round out.
import { make, setText } from '../lib/dom.js';
import { PACES } from './playback.js';
import { paceSentence, roundSentence } from './sentences.js';

const SILENCE = 1000;    // milliseconds between two announcements

export function makeTransport(root, timeline, playback) {
  const find = selector => root.querySelector(selector);
  const words = find('.sl-place'), pace = find('.sl-pace'), playButton = find('[data-do="play"]'), scrub = find('.sl-scrub');
  let announced = -1, announcedAt = 0;      // the round read out last, and when

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
    if (done === announced || done < 0 || performance.now() - announcedAt < SILENCE) return;
    announced = done;
    announcedAt = performance.now();
    say(roundSentence(timeline.rounds[done]));
  }

  const say = sentence => setText(find('.sl-live'), sentence);

  return { show, say, reset() { announced = -1; } };
}
