// Draws a small chart in SVG, fast enough to follow a finger. Texts are textContent; colours are classes in CSS.

const SVG = 'http://www.w3.org/2000/svg';
const EDGE = { left: 46, right: 14, top: 12, bottom: 42 }; // px, with type of 13 px; they grow with it

export function shape(tag, attributes = {}, text = '') {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
}

// A round step that cuts ``span`` into about ``count`` parts.
export function niceStep(span, count) {
  const rough = span / count,
    power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find(times => times * power >= rough * 0.999);
}

function ticks(low, high, step) {
  const places = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9; i++) places.push(i * step);
  return places;
}

const tidy = value => String(Number(value.toFixed(2)));

// Marks by name, centred on 0, 0.
const MARKS = {
  dot: 'M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0',
  star: 'M0,-11L3,-3.6L10.5,-3.4L4.6,1.4L6.5,8.9L0,4.6L-6.5,8.9L-4.6,1.4L-10.5,-3.4L-3,-3.6Z',
  diamond: 'M0,-8.5L8.5,0L0,8.5L-8.5,0Z',
  square: 'M-5.5,-5.5h11v11h-11Z',
  triangle: 'M0,-8L7.5,5.5h-15Z',
  wedge: 'M0,8L7.5,-5.5h-15Z',
};

// The room of a picture, and how much larger than usual its type is.
export const roomOf = box => ({
  width: box.clientWidth,
  height: box.clientHeight,
  unit: parseFloat(getComputedStyle(box).fontSize) / 13,
});

// Returns functions that draw into a frame with axes, in pixels. ``room``: as `roomOf`; ``x`` and ``y``: { low, high,
// step, name }. ``free``: pixels of usual type kept free at the right for the names of lines.
export function plot(box, { width, height, unit }, x, y, free = EDGE.right) {
  const right = free * unit,
    edge = Object.fromEntries(Object.entries(EDGE).map(([side, size]) => [side, size * unit]));
  const inner = { w: width - edge.left - right, h: height - edge.top - edge.bottom };
  const X = value => edge.left + (inner.w * (value - x.low)) / (x.high - x.low);
  const Y = value => edge.top + inner.h * (1 - (value - y.low) / (y.high - y.low));
  const svg = shape('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' });
  const grid = shape('g', { class: 'sl-grid' }),
    drawn = shape('g'),
    words = shape('g', { class: 'sl-ticks' });
  for (const tick of ticks(x.low, x.high, x.step)) {
    grid.append(shape('path', { d: `M${X(tick)},${edge.top}v${inner.h}` }));
    words.append(shape('text', { x: X(tick), y: height - 24 * unit, 'text-anchor': 'middle' }, tidy(tick)));
  }
  for (const tick of ticks(y.low, y.high, y.step)) {
    grid.append(shape('path', { d: `M${edge.left},${Y(tick)}h${inner.w}` }));
    words.append(shape('text', { x: edge.left - 7 * unit, y: Y(tick) + 4 * unit, 'text-anchor': 'end' }, tidy(tick)));
  }
  words.append(shape('text', { x: edge.left + inner.w / 2, y: height - 6 * unit, 'text-anchor': 'middle' }, x.name));
  const middle = edge.top + inner.h / 2;
  words.append(
    shape(
      'text',
      { x: 12 * unit, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 ${12 * unit} ${middle})` },
      y.name,
    ),
  );
  svg.append(grid, drawn, words);
  const line = (points, kind) =>
    drawn.append(
      shape('path', {
        class: kind,
        d: points.map(([a, b], i) => `${i ? 'L' : 'M'}${X(a).toFixed(1)},${Y(b).toFixed(1)}`).join(''),
      }),
    );
  return {
    X,
    Y,
    line,
    add: node => drawn.append(node),
    mark: (a, b, name, kind) =>
      drawn.append(
        shape('path', { class: kind, d: MARKS[name], transform: `translate(${X(a)},${Y(b)}) scale(${unit})` }),
      ),
    // Beside a point, on the side where there is room.
    label(a, b, text, kind = '', up = 0) {
      const left = X(a) > edge.left + inner.w * 0.66;
      const at = {
        x: X(a) + (left ? -11 : 11) * unit,
        y: Math.min(Math.max(Y(b) + (4 - up) * unit, edge.top + 12 * unit), edge.top + inner.h - 6),
      };
      drawn.append(shape('text', { ...at, class: `sl-tag ${kind}`, 'text-anchor': left ? 'end' : 'start' }, text));
    },
    // Writes into the free room at the right, at a height in pixels.
    beside: (at, text, kind) =>
      drawn.append(shape('text', { x: width - right + 7 * unit, y: at + 4 * unit, class: `sl-tag ${kind}` }, text)),
    level: (value, kind = 'sl-level') =>
      line(
        [
          [x.low, value],
          [x.high, value],
        ],
        kind,
      ),
    upright: (value, kind) =>
      line(
        [
          [value, y.low],
          [value, y.high],
        ],
        kind,
      ),
    show(name) {
      box.setAttribute('aria-label', name);
      box.replaceChildren(svg);
    },
    // The axes' values under a pointer, within their limits.
    at(event) {
      const place = box.getBoundingClientRect();
      const clamp = (value, { low, high }) => Math.min(high, Math.max(low, value));
      return [
        clamp(x.low + ((event.clientX - place.left - edge.left) / inner.w) * (x.high - x.low), x),
        clamp(y.high - ((event.clientY - place.top - edge.top) / inner.h) * (y.high - y.low), y),
      ];
    },
  };
}
