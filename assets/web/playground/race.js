// Plays the race: both lanes start together and follow the timestamps of their rounds. The value is views.race.
const find = selector => element.querySelector(selector);
const stage = find('.sl-race-stage'), note = find('.sl-race-note'), lanesBox = find('.sl-lanes');
const button = find('.sl-race-play'), speed = find('.sl-race-speed'), pace = find('.sl-race-pace');
const clock = find('.sl-race-clock'), axis = find('.sl-race-axis'), result = find('.sl-race-result');
const PACES = [10, 4, 2, 1, 1 / 2, 1 / 4, 1 / 10, 1 / 50];
const COMFORT = [2, 12];           // seconds on screen; outside them another pace is chosen
const still = matchMedia('(prefers-reduced-motion: reduce)');
let race = null, lanes = [], longest = 0, at = 0, playing = false, last = 0;

const perToken = () => race.unit === 'token';
// From a lane's seconds to the shared axis, which is seconds, or seconds per token of the lane.
const scale = lane => perToken() ? 1 / lane.counts.at(-1) : 1;
const words = rate => rate === 1 ? '' : rate < 1
  ? `Slow motion: ${Math.round(1 / rate)} times slower than it ran` : `Fast motion: ${rate} times faster than it ran`;
const paceName = rate => rate === 1 ? 'real time' : rate < 1 ? `${Math.round(1 / rate)}× slower` : `${rate}× faster`;

speed.append(...PACES.map(rate => make('option', '', paceName(rate), { value: rate })));

function laneNode(lane) {
  const count = make('span', 'sl-lane-count'), bar = barNode(lane);
  const head = make('p', 'sl-lane-head', [make('span', 'sl-lane-name', lane.name), count]);
  const text = make('p', 'sl-lane-text', '', { dir: 'auto' });
  lanesBox.append(make('div', `sl-lane sl-lane-${lane.kind}`, [head, bar, text]));
  return { ...lane, count, bar, text, shown: -1, end: lane.seconds * scale(lane) };
}

// A line ends each round, and a mark is where the two texts part; they are uncovered as far as rounds have ended.
function barNode(lane) {
  const parts = race.parted === null ? -1 : lane.counts.findIndex(count => count > race.parted);
  const lines = lane.ends.map((end, i) => make('b', i === parts ? 'sl-lane-parted' : '', '', { '--at': end * scale(lane) / longest }));
  return make('span', 'sl-lane-bar', [make('i'), make('i', '', lines)], { 'aria-hidden': 'true', '--colour': `var(--sl-c-${lane.kind})` });
}

// ── one moment ──
function roundsBy(lane, seconds) {         // rounds that ended by then
  let low = 0, high = lane.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.ends[middle] <= seconds + 1e-9) low = middle + 1; else high = middle;
  }
  return low;
}

function show(lane) {
  const seconds = at / scale(lane), done = roundsBy(lane, seconds), over = done === lane.ends.length;
  lane.bar.style.setProperty('--now', Math.min(at, lane.end) / longest);
  lane.bar.style.setProperty('--done', done ? lane.ends[done - 1] * scale(lane) / longest : 0);
  const count = done ? lane.counts[done - 1] : 0;
  const spent = Math.min(seconds, lane.seconds);
  const per = over && perToken() ? `, ${(1000 * lane.end).toFixed(1)} ms per token` : '';
  lane.count.textContent = `${count} of ${lane.counts.at(-1)} tokens, ${spent.toFixed(2)} s${per}${over ? ' ✓' : ''}`;
  if (done === lane.shown) return;
  // Lines only where there is room for them.
  if (lane.shown < 0) lane.bar.classList.toggle('sl-lane-dense', lane.bar.clientWidth * lane.end / longest <= 4 * lane.ends.length);
  lane.shown = done;
  const room = Math.floor(lane.text.clientWidth / 8.2);                      // the newest words, as many as fit
  const newest = lane.texts.slice(Math.max(0, done - 60), done).join('').replace(/\s+/g, ' ');    // one line of it
  lane.text.textContent = Array.from(newest).slice(-room).join('');
}

function draw() {
  lanes.forEach(show);
  clock.textContent = perToken() ? `${(1000 * at).toFixed(1)} ms per token` : `${at.toFixed(2)} s`;
  result.textContent = at >= longest ? race.result : '';
  button.textContent = playing ? 'Pause' : at >= longest ? 'Play again' : 'Play';
}

// ── playing ──
// On time per token the slower lane's real seconds set the pace.
const realSeconds = () => perToken() ? lanes.reduce((a, b) => a.end > b.end ? a : b).seconds : longest;

function frame(now) {
  if (!playing) return;
  if (!element.isConnected) return void (playing = false);
  at = Math.min(longest, at + (now - last) / 1000 * Number(speed.value) * longest / realSeconds());
  last = now;
  if (at >= longest) playing = false;
  draw();
  if (playing) requestAnimationFrame(frame);
}

function play() {
  if (at >= longest) at = 0;
  playing = true;
  last = performance.now();
  draw();
  requestAnimationFrame(frame);
}

function comfortable(seconds) {
  const fits = rate => seconds / rate >= COMFORT[0] && seconds / rate <= COMFORT[1];
  if (fits(1)) return 1;
  return PACES.find(fits) ?? (seconds < COMFORT[0] ? PACES.at(-1) : PACES[0]);
}

function begin(value) {
  race = JSON.parse(value || '{"lanes":[],"note":""}');
  playing = false;
  note.textContent = race.note;
  lanesBox.replaceChildren();
  stage.hidden = !race.lanes.length;
  if (stage.hidden) return;
  longest = Math.max(...race.lanes.map(lane => lane.seconds * scale(lane)));
  lanes = race.lanes.map(laneNode);
  speed.value = comfortable(realSeconds());
  pace.textContent = words(Number(speed.value));
  axis.textContent = perToken() ? `0 to ${(1000 * longest).toFixed(1)} ms per token` : `0 to ${longest.toFixed(2)} seconds`;
  at = longest;
  if (still.matches) draw(); else { at = 0; eye.observe(stage); draw(); }
}

// Starts when it first comes into sight.
const eye = new IntersectionObserver(entries => {
  if (entries.some(entry => entry.isIntersecting) && race?.lanes.length) { eye.disconnect(); play(); }
}, { threshold: .6 });

button.addEventListener('click', () => {
  if (playing) { playing = false; draw(); } else { eye.disconnect(); play(); }
});
speed.addEventListener('change', () => { pace.textContent = words(Number(speed.value)); });
new ResizeObserver(() => { for (const lane of lanes) lane.shown = -1; if (race?.lanes.length) draw(); }).observe(lanesBox);

onValue(begin);
