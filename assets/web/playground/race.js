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

for (const rate of PACES) {
  const option = make('option', '', paceName(rate));
  option.value = rate;
  speed.append(option);
}

function laneNode(lane) {
  const node = make('div', `sl-lane sl-lane-${lane.kind}`);
  const head = make('p', 'sl-lane-head');
  const count = make('span', 'sl-lane-count');
  head.append(make('span', 'sl-lane-name', lane.name), count);
  const canvas = make('canvas', 'sl-lane-bar'), text = make('p', 'sl-lane-text');
  canvas.setAttribute('aria-hidden', 'true');
  text.dir = 'auto';
  node.append(head, canvas, text);
  lanesBox.append(node);
  return { ...lane, count, canvas, text, shown: -1, end: lane.seconds * scale(lane) };
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

function paint(lane, done, seconds) {
  const { canvas } = lane, ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  const dots = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== dots[0] || canvas.height !== dots[1]) [canvas.width, canvas.height] = dots;
  const pen = canvas.getContext('2d'), styles = getComputedStyle(canvas);
  const colour = name => styles.getPropertyValue(`--sl-c-${name}`).trim();
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const along = time => time * scale(lane) / longest * width;
  pen.fillStyle = colour(lane.kind);
  pen.globalAlpha = .35;                   // the round under way
  pen.fillRect(0, 0, along(Math.min(seconds, lane.seconds)), height);
  pen.globalAlpha = 1;
  const solid = done ? along(lane.ends[done - 1]) : 0;
  pen.fillRect(0, 0, solid, height);
  const parts = race.parted === null ? -1 : lane.counts.findIndex(count => count > race.parted);
  pen.fillStyle = colour('paper');         // a line after each round, where there is room for lines
  if (along(lane.seconds) / lane.ends.length > 4) {
    for (let i = 0; i < done; i++) pen.fillRect(along(lane.ends[i]) - 1, 0, 1, height);
  }
  if (parts >= 0 && parts < done) {        // where the two texts part
    pen.fillStyle = colour('rejected');
    pen.fillRect(along(lane.ends[parts]) - 2, 0, 4, height);
  }
}

function show(lane) {
  const seconds = at / scale(lane), done = roundsBy(lane, seconds), over = done === lane.ends.length;
  paint(lane, done, seconds);
  const count = done ? lane.counts[done - 1] : 0;
  const spent = Math.min(seconds, lane.seconds);
  const per = over && perToken() ? `, ${(1000 * lane.end).toFixed(1)} ms per token` : '';
  lane.count.textContent = `${count} of ${lane.counts.at(-1)} tokens, ${spent.toFixed(2)} s${per}${over ? ' ✓' : ''}`;
  if (done === lane.shown) return;
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

function begin() {
  race = JSON.parse(props.value || '{"lanes":[],"note":""}');
  playing = false;
  note.textContent = race.note;
  lanesBox.replaceChildren();
  stage.hidden = !race.lanes.length;
  if (stage.hidden) return;
  lanes = race.lanes.map(laneNode);
  longest = Math.max(...lanes.map(lane => lane.end));
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
new MutationObserver(() => { if (race?.lanes.length) draw(); })
  .observe(document.body, { attributes: true, attributeFilter: ['class'] });

watch('value', begin);
begin();
