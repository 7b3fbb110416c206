// Draws the strip above the rounds: four numbers, and both lanes as bars on one time axis. The position in the rounds
// is the one clock: it runs through both bars.
/** @import { Numbers, Plain } from './lines.d.ts' */
/** @import { Position, Timeline } from './rounds.d.ts' */
import { closest, make, makeButton, makeFind, setText } from '../lib/dom.js';
import { quantity } from '../lib/format.js';
import { lastWhere } from '../lib/search.js';

/** @param {HTMLElement} box @param {Timeline} timeline the run's own rounds; the baseline's lane comes with the numbers
 * @param {(() => void) | null} [measureAlone] what the button of a run beside others does; null without an engine */
export function makeStrip(box, timeline, measureAlone = null) {
  /** @type {NodeListOf<HTMLElement>} */
  const nodes = box.querySelectorAll('.sl-tile');
  const tiles = Object.fromEntries([...nodes].map(node => [node.dataset.tile, node]));
  const ours = laneNode('run', 'this run'),
    theirs = laneNode('plain', 'no drafting');
  const lanes = makeFind(box)('.sl-lanes');
  lanes.append(ours.node, theirs.node);
  /** @type {Plain | null} */
  let plain = null;
  let isMeasuring = false;
  let note = '';
  const alone = makeButton(
    '',
    () => {
      alone.hidden = true;
      measureAlone();
    },
    'sl-button sl-alone',
    { hidden: '' },
  );
  tiles.speedup.append(alone);

  function laneNode(kind, name) {
    const bar = make('span', 'sl-bar', [make('i'), make('i'), make('b')], { 'aria-hidden': 'true' }),
      count = make('span', 'sl-count');
    return {
      bar,
      count,
      node: make('span', `sl-lane sl-lane-${kind}`, [make('span', 'sl-lane-name', name), bar, count]),
    };
  }

  /** @param {Numbers} line */
  function read(line) {
    box.hidden = false;
    closest(box, '.sl-player').dataset.strip = '';
    [plain, isMeasuring, note] = [line.plain || null, line.measuring, line.note || ''];
    closest(box, '.sl-player').toggleAttribute('data-measuring', Boolean(isMeasuring));
    tiles.grammar.hidden = !line.tiles.grammar; // of runs with a constraint
    for (const [name, [number, words]] of Object.entries(line.tiles)) {
      setText(tiles[name].querySelector('.sl-number'), number);
      const shown = tiles[name].querySelector('.sl-note');
      if (shown) setText(shown, words);
      else tiles[name].title = words;
    }
    tiles.speedup.dataset.tone = line.tone || '';
    tiles.speedup.toggleAttribute('data-shared', Boolean(line.shared));
    setText(alone, line.shared ? 'Measure alone' : 'Measure again');
    alone.hidden = !((line.shared || line.tone === 'noise') && measureAlone && timeline.ended);
  }

  /** The rounds of a lane that ended by ``time``, in seconds since its first round began.
   * @param {number[]} ends @param {number} time */
  const endedBy = (ends, time) => lastWhere(ends.length + 1, count => ends[count - 1] <= time + 1e-9);

  /** The clock of a position: within a round its steps share the time evenly. @param {Position} place */
  function timeAt({ index, step }) {
    if (index < 0) return 0;
    const { start, end, steps } = timeline.rounds[index],
      zero = timeline.rounds[0].start;
    return start - zero + (end - start) * Math.min(1, step / steps);
  }

  function lane({ bar, count }, longest, end, time, tokens, total, words) {
    const share = seconds => `${100 * Math.min(1, seconds / longest)}%`;
    bar.style.setProperty('--end', share(end));
    bar.style.setProperty('--now', share(Math.min(time, end)));
    bar.dataset.tokens = tokens;
    const seconds = `${end.toFixed(2)} s`;
    const noun = timeline.prefix ? 'more token' : 'token'; // than a kept branch begins with
    setText(
      count,
      words ??
        (tokens < total
          ? `${tokens} of ${quantity(total, noun)}, ${seconds} in all`
          : `${quantity(total, noun)} in ${seconds}`),
    );
  }

  /** @param {Position} place */
  function show(place) {
    if (box.hidden) return;
    const { rounds } = timeline,
      zero = rounds[0]?.start ?? 0,
      end = rounds.length ? rounds.at(-1).end - zero : 0;
    const time = timeAt(place),
      done = place.index < 0 ? 0 : place.step >= rounds[place.index].steps ? place.index + 1 : place.index;
    const tokens = done ? timeline.tokensBefore(done) : 0,
      all = timeline.tokensBefore(rounds.length);
    const most = timeline.ended ? all : timeline.about.most;
    // While a lane grows, its bar ends where its pace will bring it.
    const reach = (seconds, written, isOver) =>
      isOver || !written || !most ? seconds : seconds * Math.max(1, most / written);
    const longest = Math.max(
      1e-6,
      reach(end, all, timeline.ended),
      plain ? reach(plain.seconds, plain.tokens, plain.ends) : 0,
    );
    lane(ours, longest, end, time, tokens, all);
    if (!plain) lane(theirs, longest, 0, 0, 0, 0, isMeasuring ? 'comes next' : 'not measured');
    else if (!plain.ends)
      lane(theirs, longest, plain.seconds, plain.seconds, plain.tokens, 0, `${quantity(plain.tokens, 'token')} so far`);
    else {
      const ended = endedBy(plain.ends, time);
      lane(theirs, longest, plain.seconds, time, ended ? plain.counts[ended - 1] : 0, plain.tokens);
    }
    box.style.setProperty('--at', String(Math.min(1, time / longest)));
    lanes.title = note;
  }

  // A run that has begun has numbers with its first rounds.
  function reset() {
    [plain, isMeasuring, note] = [null, false, ''];
    box.hidden = true;
  }

  return { read, show, reset };
}
