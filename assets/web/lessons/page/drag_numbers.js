// Makes numbers of a sentence draggable: by pointer, by touch and by arrow keys. The sentence's results are computed
// again by a function that a tool of the lesson uses, too.

import { MODELS } from './sentence_models.js';

const WIDTH = 260; // pixels from the lowest value to the highest, as long as a step is neither tiny nor huge

const digitsOf = step => (String(step).split('.')[1] ?? '').length;

// The value that is on a step of the slider's, within its ends.
const onStep = (value, { low, high, step }) =>
  Number(Math.min(high, Math.max(low, low + Math.round((value - low) / step) * step)).toFixed(digitsOf(step)));

// ``node``: the number; ``range``: label, value, low, high and step; ``changed(value)`` is called after each change.
function makeDraggable(node, range, changed) {
  const { low, high, step, label } = range,
    pixels = Math.min(16, Math.max(3, (WIDTH * step) / (high - low)));
  let value = onStep(range.value, range),
    start = null;

  function show() {
    node.textContent = value.toFixed(digitsOf(step));
    node.setAttribute('aria-valuenow', value);
    node.setAttribute('aria-valuetext', `${label}: ${node.textContent}`);
  }
  function set(to) {
    const next = onStep(to, range);
    if (next === value) return;
    value = next;
    show();
    changed(value);
  }
  const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
  node.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Home') set(low);
    else if (event.key === 'End') set(high);
    else if (event.key in steps) set(value + steps[event.key] * step);
    else return;
    event.preventDefault();
  });
  node.addEventListener('pointerdown', event => {
    if (start) return; // a second finger moves nothing
    node.setPointerCapture(event.pointerId);
    start = { pointer: event.pointerId, x: event.clientX, value };
  });
  node.addEventListener('pointermove', event => {
    if (event.pointerId === start?.pointer) set(start.value + Math.round((event.clientX - start.x) / pixels) * step);
  });
  for (const end of ['pointerup', 'pointercancel'])
    node.addEventListener(end, event => {
      if (event.pointerId === start?.pointer) start = null;
    });
  const about = { role: 'slider', tabindex: 0, 'aria-label': label, 'aria-valuemin': low, 'aria-valuemax': high };
  for (const [name, told] of Object.entries(about)) node.setAttribute(name, told);
  show();
  return { set };
}

// Brings the numbers in ``blocks`` to life. ``sentence``: the model's name, its other inputs, the numbers and the
// digits of each result. A number with a ``slider`` moves the slider of that label in ``tool``, and follows it.
export function makeSentence(blocks, { model, inputs, numbers, results }, tool, touched) {
  const find = (kind, name) => blocks.flatMap(block => [...block.querySelectorAll(`[data-${kind}="${name}"]`)]);
  const values = { ...inputs };
  function compute() {
    for (const [name, value] of Object.entries(MODELS[model](values)))
      for (const node of find('live', name))
        node.textContent = typeof value === 'number' ? value.toFixed(results[name]) : value;
  }
  const sliderOf = label =>
    [...(tool?.querySelectorAll('.sl-slide') ?? [])]
      .find(row => row.firstChild.textContent === label)
      ?.querySelector('input');

  for (const [name, range] of Object.entries(numbers)) {
    const input = range.slider ? sliderOf(range.slider) : undefined;
    values[name] = onStep(range.value, range);
    const number = makeDraggable(find('drag', name)[0], range, value => {
      values[name] = value;
      compute();
      touched();
      if (!input || Number(input.value) === value) return;
      input.value = value;
      input.dispatchEvent(new Event('input', { bubbles: true }));
    });
    input?.addEventListener('input', () => number.set(Number(input.value)));
  }
  compute();
}
