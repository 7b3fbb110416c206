// Draws the transport: the place, the slider, the play button and the pace; reads each round out.
import { make, makeFind, setText } from '../lib/dom.js';
import { PACES } from './playback.js';
import { endSentence, paceSentence, roundSentence } from './sentences.js';

const SILENCE = 1000; // milliseconds between two announcements

export function makeTransport(root, timeline, playback) {
  const find = makeFind(root);
  const [round, words] = find('.sl-place').children;
  const playButton = find('[data-do="play"]');
  /** @type {HTMLSelectElement} */
  const pace = find('.sl-pace');
  /** @type {HTMLInputElement} */
  const scrub = find('.sl-scrub');
  let announced = -1; // the newest round
  let waiting; // its sentence
  let timer = null;
  let saidAt = -1e9; // milliseconds

  pace.append(...PACES.map(rate => make('option', '', paceSentence(rate), { value: rate })));
  scrub.addEventListener('input', () => playback.move(Number(scrub.value), 'reader'));
  pace.addEventListener('input', () => {
    playback.pace = Number(pace.value);
  });

  function show(at) {
    const rounds = timeline.rounds.length,
      count = rounds ? `${at.index + 1} of ${rounds}` : 'No rounds yet',
      where = rounds ? `Round ${count}` : count;
    setText(round, rounds ? 'Round ' : '');
    setText(words, playback.live ? `${count}, live` : count);
    scrub.max = String(timeline.steps);
    scrub.value = String(playback.at);
    scrub.setAttribute('aria-valuetext', where);
    showButton(playback.playing || playback.live);
    pace.value = String(playback.pace);
    announce(at);
  }

  function showButton(isMoving) {
    if (playButton.dataset.moving === String(isMoving)) return;
    playButton.dataset.moving = isMoving;
    playButton.setAttribute('aria-label', isMoving ? 'Pause' : 'Play');
    playButton.title = isMoving ? 'Pause (Space)' : 'Play (Space)';
  }

  // The newest round and at last the run's end, at most once a second.
  function announce({ index, step }) {
    const { rounds, ended, prefix } = timeline,
      done = index >= 0 && step < rounds[index]?.steps ? index - 1 : index;
    const isEnd = ended && done === rounds.length - 1,
      news = isEnd ? rounds.length : done;
    if (done < 0 || news === announced) return;
    announced = news;
    waiting = roundSentence(rounds[done]) + (isEnd ? ` ${endSentence(ended, prefix > 0)}` : '');
    if (timer) return;
    timer = setTimeout(
      () => {
        setText(find('.sl-live'), waiting);
        timer = null;
        saidAt = performance.now();
      },
      Math.max(0, saidAt + SILENCE - performance.now()),
    );
  }

  return {
    show,
    reset() {
      announced = -1;
      clearTimeout(timer);
      timer = null;
      setText(find('.sl-live'), '');
    },
  };
}
