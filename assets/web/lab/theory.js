// Draws the theory tab: sliders, a sentence, the formula with their numbers, three pictures. Everything is worked out
// here, at once; the server only sends the visitor's last run and the points measured on its machine (theory/view.py),
// and the browser keeps a curve of another machine (own_curve.js).

import { makeFind, onValue, setText } from '../lib/dom.js';
import { onCurve, ownCurve } from '../lib/own_curve.js';
import { bestGamma, breakEven, expectedTokens, idealisedSpeedup, interpolate } from '../lib/speedup_model.js';
import { roomOf } from './svg_chart.js';
import { bestMap, captions, MOST, overAlpha, overGamma, times } from './theory_charts.js';

export function mount(part) {
  const { element } = part;
  const root = element.querySelector('.sl-theory');
  const find = makeFind(root);
  const START = { alpha: 0.7, gamma: 4, c: 0.1, slope: 0.08 };
  const NONE = { words: '', alpha: null, gamma: null, c: null, v: null, here: null };
  const sliders = Object.fromEntries([...root.querySelectorAll('input[type=range]')].map(input => [input.name, input]));
  const modes = [...root.querySelectorAll('input[type=radio]')];
  const boxes = { gamma: find('[data-plot=gamma]'), alpha: find('[data-plot=alpha]'), map: find('[data-plot=map]') };
  const spoken = find('.sl-theory-spoken');
  /** @type {HTMLButtonElement} */
  const toRun = find('.sl-theory-to-run');
  let run = NONE;
  let mostC = 1;
  let frames = {};

  /** @returns {Record<string, number>} */
  const sliderValues = () =>
    Object.fromEntries(Object.entries(sliders).map(([name, input]) => [name, Number(input.value)]));
  const mode = name => modes.find(each => each.value === name);
  // The measured v(W) that is chosen; null while it is a straight line.
  const measuredCosts = () => {
    const chosen = modes.find(each => each.checked)?.value;
    return { measured: run.v, here: run.here?.v, own: ownCurve()?.round }[chosen] ?? null;
  };
  const costs = () => measuredCosts() ?? { 1: 1, 2: 1 + sliderValues().slope };

  function put(values) {
    for (const [name, value] of Object.entries(values)) sliders[name].value = value;
    schedule();
  }

  // ── drawing, once a frame however fast the sliders move ──

  let waiting = false;
  function schedule() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }

  function draw() {
    const began = performance.now(),
      now = sliderValues(),
      v = costs();
    // Looked up before anything is written: in between, each look would lay the page out again.
    const rooms = Object.fromEntries(Object.entries(boxes).map(([name, box]) => [name, roomOf(box)]));
    for (const [name, input] of Object.entries(sliders)) {
      const shown = name === 'gamma' ? String(now.gamma) : now[name].toFixed(2);
      input.closest('label').querySelector('output').textContent = shown;
    }
    sliders.slope.disabled = measuredCosts() != null;
    fill(now, v);
    speak(now, v);
    if (!rooms.gamma.width) return; // in a tab that is not open; drawn when it is
    frames = {
      gamma: overGamma(boxes.gamma, rooms.gamma, now, v, run),
      alpha: overAlpha(boxes.alpha, rooms.alpha, now, v, run),
      map: bestMap(boxes.map, rooms.map, now, v, run, mostC),
    };
    for (const [name, words] of Object.entries(captions(now, run)))
      setText(find(`[data-chart-of="${name}"] figcaption`), words);
    root.dataset.drawn = (performance.now() - began).toFixed(1); // milliseconds
  }

  // ── words ──

  /** @param {Record<string, number>} values @param {Record<string, number>} v */
  function fill({ alpha, gamma, c }, v) {
    const tokens = expectedTokens(alpha, gamma),
      scoring = interpolate(v, gamma + 1),
      cost = gamma * c + scoring;
    const numbers = {
      alpha: alpha.toFixed(2),
      gamma,
      next: gamma + 1,
      c: c.toFixed(2),
      scoring: scoring.toFixed(2),
      tokens: tokens.toFixed(2),
      cost: cost.toFixed(2),
      speedup: times(tokens / cost),
    };
    for (const node of root.querySelectorAll('[data-fill]')) node.textContent = numbers[node.dataset.fill];
  }

  function pace(speedup) {
    if (Math.abs(speedup - 1) < 0.005) return 'as fast as plain decoding';
    return speedup > 1
      ? `${times(speedup)} as fast as plain decoding`
      : `${times(speedup)}: slower than plain decoding`;
  }

  function sentence({ alpha, gamma, c }, v) {
    const tokens = expectedTokens(alpha, gamma),
      cost = gamma * c + interpolate(v, gamma + 1);
    const best = bestGamma(alpha, c, v, MOST),
      at = breakEven(gamma, c, v);
    const round = `A round makes ${tokens.toFixed(2)} tokens on average and takes as long as ${cost.toFixed(2)} plain steps: ${pace(tokens / cost)}.`;
    let choice = `Best would be γ = ${best}, ${times(idealisedSpeedup(alpha, best, c, v))}.`;
    if (best === 0) choice = 'At this α no draft length pays.';
    else if (best === gamma) choice = `γ = ${gamma} is the best draft length here.`;
    let pays = `γ = ${gamma} pays at no α, not even 1.`;
    if (at === 0) pays = `γ = ${gamma} pays at any α.`;
    else if (at != null) pays = `γ = ${gamma} pays from α = ${at.toFixed(2)} on.`;
    return `${round} ${choice} ${pays}`;
  }

  // Shown at once, read aloud only when the slider has come to rest.
  let rest = null;
  function speak(now, v) {
    const words = sentence(now, v),
      speedup = idealisedSpeedup(now.alpha, now.gamma, now.c, v);
    find('.sl-theory-sentence').textContent = words;
    find('.sl-theory-sentence').dataset.tone = speedup > 1.02 ? 'faster' : speedup < 0.98 ? 'slower' : 'level';
    clearTimeout(rest);
    rest = setTimeout(() => {
      if (spoken.textContent !== words) spoken.textContent = words;
    }, 700);
  }

  // ── the visitor's run, and the points measured here ──

  const costsOf = ({ here }) => JSON.stringify([here?.v, here?.c]); // two that differ in c alone are different, too

  function readRun(value) {
    const before = costsOf(run);
    run = { ...NONE, ...JSON.parse(value || '{}') };
    find('.sl-theory-run').textContent = run.words;
    explain('measured', run.v, run.v ? run.where : 'no run here has measured it');
    explain('here', run.here?.v, run.here?.where ?? '');
    mode('here').closest('label').hidden = !run.here?.v;
    if (!modes.some(each => each.checked && !each.disabled)) mode('line').checked = true;
    toRun.disabled = run.alpha == null || !run.v;
    toRun.textContent = run.own ? 'Set the sliders to my run' : 'Set the sliders to the recorded run';
    widenC();
    root.dataset.run = run.own ? 'own' : 'recorded';
    root.toggleAttribute('data-here', run.here != null);
    if (run.here?.v && costsOf(run) !== before) goHere();
    schedule();
  }

  // A draft may cost more than the target.
  function widenC() {
    const known = [run.c, run.here?.c, ownCurve()?.c].map(c => c ?? 0);
    mostC = Math.max(1, Math.ceil(Math.max(...known) * 2) / 2);
    sliders.c.max = mostC;
  }

  function explain(name, v, words) {
    mode(name).disabled = !v;
    mode(name).closest('label').querySelector('.sl-theory-measured').textContent = words;
  }

  // New costs of this machine: the sliders go to them, and to a draft length that is measured.
  function goHere() {
    mode('here').checked = true;
    const { c, gammas } = run.here,
      { gamma } = sliderValues();
    put({ c, gamma: gammas.includes(gamma) ? gamma : (gammas[0] ?? gamma) });
  }

  function goToRun() {
    mode('measured').checked = true;
    put({ alpha: Math.min(run.alpha, 0.99), gamma: Math.max(1, Math.round(run.gamma)), c: run.c });
  }

  function reset() {
    mode('line').checked = true;
    put(START);
  }

  // Another curve of the reader's own is chosen at once, with its cost of a draft step; without one the line is back.
  function readOwn() {
    const own = ownCurve();
    explain('own', own?.v, own?.words ?? '');
    mode('own').closest('label').hidden = !own;
    if (!own && mode('own').checked) mode('line').checked = true;
    if (own) mode('own').checked = true;
    widenC();
    put(own?.c == null ? {} : { c: own.c });
  }

  // ── hands ──

  // Dragging in a picture moves the sliders that are its axes.
  function draggable(name, moved) {
    const box = boxes[name];
    const move = event => {
      if (frames[name]) put(moved(...frames[name].at(event)));
    };
    box.addEventListener('pointerdown', event => {
      if (event.button) return;
      box.setPointerCapture(event.pointerId);
      move(event);
    });
    box.addEventListener('pointermove', event => {
      if (box.hasPointerCapture(event.pointerId)) move(event);
    });
  }
  draggable('gamma', gamma => ({ gamma: Math.max(1, Math.round(gamma)) }));
  draggable('alpha', alpha => ({ alpha }));
  draggable('map', (alpha, c) => ({ alpha, c }));

  for (const input of [...Object.values(sliders), ...modes]) input.addEventListener('input', schedule);
  toRun.addEventListener('click', goToRun);
  find('.sl-theory-reset').addEventListener('click', reset);
  new ResizeObserver(schedule).observe(root);

  put(START);
  onValue(part, readRun);
  readOwn();
  onCurve(root, readOwn);
}
