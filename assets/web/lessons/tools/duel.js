// Plays a recorded run against writing one token at a time. The race takes as long as the run did by the clock; each pass has
// its share by the costs, in plain steps.

import { isCalm, make, makeButton, setText } from '../../lib/dom.js';
import { wholePercent } from '../../lib/format.js';
import { figure, makeNote, makeResult, meter } from '../widgets/widgets.js';

// ``predicted``: [[plain steps since the start, texts of the new tokens], …]. One token at a time takes one step for each.
// ``clock``: how many times as fast the run was, as measured.
export function makeDuel({ rounds: predicted, clock: speedup }, touched) {
  const STEPS_A_SECOND = 8,
    FRAME = 60;
  const tokens = predicted.flatMap(([, texts]) => texts),
    end = tokens.length / speedup,
    stretch = end / predicted[predicted.length - 1][0],
    rounds = predicted.map(([at, texts]) => [stretch * at, texts]),
    least = Math.min(end, tokens.length);
  const countAlone = time => Math.min(tokens.length, Math.floor(time + 1e-9));
  const countWithDrafts = time =>
    rounds.reduce((count, [at, texts]) => count + (at <= time + 1e-9 ? texts.length : 0), 0);
  const lanes = [
    { name: 'One token at a time', countAt: countAlone },
    { name: 'With drafts', countAt: countWithDrafts },
  ].map(lane => ({ ...lane, bar: meter('sl-meter-p'), text: make('p', 'sl-duel-text') }));
  const result = makeResult(),
    start = makeButton('Start the race', run);
  let clock = 0,
    ticking = null;

  function draw() {
    for (const { name, countAt, bar, text } of lanes) {
      const count = countAt(clock);
      bar.set(name, count / tokens.length, `${count} of ${tokens.length}`);
      setText(text, tokens.slice(0, count).join('') || '\u00a0');
    }
  }

  function run() {
    clearInterval(ticking);
    clock = 0;
    result.textContent = '';
    if (isCalm()) {
      clock = least;
      return finish();
    }
    ticking = setInterval(() => {
      if (!start.isConnected) return clearInterval(ticking);
      clock = Math.min(least, clock + (STEPS_A_SECOND * FRAME) / 1000);
      draw();
      if (clock === least) finish();
    }, FRAME);
  }

  function finish() {
    clearInterval(ticking);
    draw();
    if (speedup > 1.005)
      result.textContent = `By the clock, the text with drafts was done ${speedup.toFixed(2)} times as fast: in ${rounds.length} passes instead of ${tokens.length}.`;
    else if (speedup < 0.995)
      result.textContent = `With drafts it took ${wholePercent(1 / speedup - 1)} longer: too few guesses were right.`;
    else result.textContent = 'Both were done at the same time.';
    result.dataset.ratio = speedup.toFixed(3);
    start.textContent = 'Race again';
    touched();
  }

  return figure(
    'One after the other, or several at once',
    draw,
    () => {},
    make('div', 'sl-buttons', [start]),
    ...lanes.flatMap(({ bar, text }) => [bar.row, text]),
    result,
    makeNote('A recording, in slow motion. Each pass has its share of the time by costs that were measured before.'),
  );
}
