// Makes the widgets of lessons: sliders, lists, results, a small chart. Has no formulas.
import { make } from '../../lib/dom.js';

export const short = x =>
  Number.isInteger(x) ? String(x) : Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(2);

// Whether a class looks at the page on a projector: only then are votes counted.
export const isClass = () => document.body.classList.contains('sl-present');

// A labelled slider; ``words`` turns its value into the text beside it.
export function slider(label, { low, high, step, value, words = short }) {
  const input = make('input', '', '', { type: 'range', min: low, max: high, step, value }),
    shown = make('output', '', words(value));
  function say() {
    shown.textContent = words(Number(input.value));
    input.setAttribute('aria-valuetext', shown.textContent);
  }
  input.addEventListener('input', say);
  return {
    row: make('label', 'sl-slide', [make('span', '', label), input, shown]),
    get value() {
      return Number(input.value);
    },
    set value(to) {
      input.value = String(to);
      say();
    },
  };
}

// A labelled list; ``options``: [words, value].
export function picker(label, options, chosen = 0) {
  const select = make(
    'select',
    '',
    options.map(([words], index) => make('option', '', words, { value: index })),
  );
  select.selectedIndex = chosen;
  return {
    row: make('label', 'sl-pick', [make('span', '', label), select]),
    get index() {
      return select.selectedIndex;
    },
    get value() {
      return options[select.selectedIndex][1];
    },
  };
}

// A line of result, which a screen reader reads when it changes.
export const makeResult = (text = '') => make('p', 'sl-result', text, { role: 'status' });

// A sentence in small print: what a figure leaves out, or where its numbers are from.
export const makeNote = (text = '', attributes = {}) => make('p', 'sl-figure-note', text, attributes);

// Names and values, one pair a row. ``set(rows)``: [name, value] of each.
export function makeSigns() {
  const node = make('dl', 'sl-signs');
  const set = rows =>
    node.replaceChildren(...rows.flatMap(([name, value]) => [make('dt', '', name), make('dd', '', value)]));
  return { node, set };
}

// A tool in its box. ``draw`` shows the values of the sliders and lists, now and
// after each change, which is ``touched()``.
export function figure(title, draw, touched, ...parts) {
  const box = make('div', 'sl-figure-box', [make('h4', '', title), ...parts]);
  box.addEventListener('input', () => {
    draw();
    touched();
  });
  draw();
  return box;
}

// One of several bars on the same scale: its name, its length (0 to 1), and its number.
export function meter(kind = '') {
  const fill = make('i'),
    name = make('span', 'sl-meter-name'),
    number = make('span', 'sl-meter-number');
  return {
    row: make('div', `sl-meter ${kind}`, [name, make('span', 'sl-meter-track', [fill]), number]),
    set(words, share, shown) {
      name.textContent = words;
      fill.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
      number.textContent = shown;
    },
  };
}

// Columns over whole numbers, with a line across at ``level``; ``marked`` is drawn darker.
export function columns(values, { marked, level, top, name }) {
  const line = make('i', 'sl-columns-level', '', { '--at': level / top });
  const bars = values.map((value, index) =>
    make('div', index === marked ? 'sl-column sl-column-best' : 'sl-column', [
      make('b', '', value.toFixed(2)),
      make('i', '', '', { '--at': Math.max(0, value / top) }),
      make('span', '', String(index)),
    ]),
  );
  return make('div', 'sl-columns', [...bars, line], { role: 'img', 'aria-label': name });
}
