// Plays a recorded run against writing one token at a time. The clock counts plain steps, as predicted from the costs.

import { isCalm, make, makeButton, setText } from '../../lib/dom.js';
import { wholePercent } from '../../lib/format.js';
import { figure, makeNote, makeResult, meter, short } from '../widgets/widgets.js';

// ``rounds``: [[plain steps since the start, texts of the new tokens], …]. One token at a time takes one step for each.
export function makeDuel({ rounds }, touched) {
  const STEPS_A_SECOND = 8,
    FRAME = 60;
  const tokens = rounds.flatMap(([, texts]) => texts),
    end = rounds[rounds.length - 1][0],
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
    const ratio = tokens.length / end;
    if (ratio > 1.005)
      result.textContent = `With drafts the text is done ${short(ratio)} times as fast. One token at a time needs ${tokens.length} passes.`;
    else if (ratio < 0.995)
      result.textContent = `With drafts it takes ${wholePercent(1 / ratio - 1)} longer: too few guesses were right.`;
    else result.textContent = 'Both are done at the same time.';
    result.dataset.ratio = ratio.toFixed(3);
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
    makeNote('In slow motion, worked out from costs that were measured before the run. Nothing here is clocked live.'),
  );
}
