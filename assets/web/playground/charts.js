// Draws charts in place with Plotly.react: only those in sight. plotly.js is fetched when first needed.
import { onValue } from '../lib/dom.js';

export function mount(part) {
  const { element } = part;
  const root = element.querySelector('.sl-charts');
  const slots = {}; // name → its elements
  const waiting = {}; // name → a figure not drawn yet
  for (const node of root.querySelectorAll('.sl-chart')) {
    const plot = node.querySelector('.sl-plot'),
      note = node.querySelector('.sl-chart-note');
    slots[node.dataset.chart] = { node, plot, note, seen: false, figure: null };
  }
  const narrow = () => root.clientWidth < 520;

  let loading = null;
  function plotly() {
    loading ??= window.Plotly
      ? Promise.resolve(window.Plotly)
      : new Promise((resolve, reject) => {
          const script = document.createElement('script');
          script.src = new URL(root.dataset.plotly, document.baseURI).href;
          script.onload = () => resolve(window.Plotly);
          script.onerror = () => {
            loading = null;
            reject(new Error('plotly.js did not load'));
          };
          document.head.appendChild(script);
        });
    return loading;
  }

  // "@run" is a role; its colour is in colours.css, once for light and once for dark.
  function withColours(value, styles) {
    if (typeof value === 'string')
      return value[0] === '@' ? styles.getPropertyValue(`--sl-c-${value.slice(1)}`).trim() : value;
    if (Array.isArray(value)) return value.map(inner => withColours(inner, styles));
    if (value && typeof value === 'object')
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, withColours(v, styles)]));
    return value;
  }

  // On a phone a map has no room for its scale, which the numbers in it repeat.
  const isMap = ({ type }) => type === 'heatmap';
  function fitOne(one) {
    if (isMap(one)) return { ...one, showscale: false, textfont: { ...one.textfont, size: 11 } };
    if (one.mode === 'text' && one.x.length > 8) return { ...one, textfont: { ...one.textfont, size: 8 } }; // a bar's width
    return one;
  }
  const fitData = data => (narrow() ? data.map(fitOne) : data);

  function layoutOf(figure, styles) {
    const ink = withColours('@ink', styles),
      grid = withColours('@grid', styles),
      paper = withColours('@paper', styles);
    const note = parseFloat(getComputedStyle(root.querySelector('.sl-chart-note')).fontSize); // grows in a presentation
    const size = narrow() ? 12 : Math.max(14, note);
    const axis = { gridcolor: grid, zerolinecolor: grid, automargin: true, fixedrange: narrow() };
    const own = withColours(figure.layout, styles);
    return {
      ...own,
      xaxis: { ...axis, ...own.xaxis },
      yaxis: { ...axis, ...(narrow() && figure.data.some(isMap) ? { tickfont: { size: 10 } } : {}), ...own.yaxis },
      font: { family: 'ui-sans-serif, system-ui, sans-serif', size, color: ink },
      paper_bgcolor: paper,
      plot_bgcolor: paper,
      margin: { l: 8, r: 16, t: 34, b: 8 },
      legend: { orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom', xanchor: 'left', traceorder: 'normal' },
      hoverlabel: { bgcolor: paper, font: { color: ink } },
      uirevision: 'kept', // keeps the reader's zoom
    };
  }

  function config(name) {
    return {
      displaylogo: false,
      displayModeBar: true,
      modeBarButtons: [['toImage']],
      showSendToCloud: false,
      plotlyServerURL: '', // no chart leaves the page
      toImageButtonOptions: { format: 'png', filename: `speclens-${name}`, scale: 2 },
    };
  }

  // plotly.js would hear of a new width only while a chart is shown, and keeps the old one when it draws again.
  function fit({ plot }) {
    const picture = plot.querySelector('.main-svg');
    if (plot.offsetWidth && picture && Math.abs(picture.clientWidth - plot.clientWidth) > 2)
      return window.Plotly.Plots.resize(plot);
  }

  async function drawOne(name) {
    const slot = slots[name],
      figure = waiting[name];
    if (!figure || !slot.seen) return;
    delete waiting[name];
    slot.figure = figure;
    delete slot.node.dataset.drawn;
    if (!figure.data.length) return void window.Plotly?.purge(slot.plot);
    try {
      const Plotly = await plotly(),
        styles = getComputedStyle(root);
      // Another tab was opened meanwhile. Drawn in a hidden one, a chart would be 700 px wide (plotly.js 4.1.1).
      if (!slot.plot.offsetWidth) {
        waiting[name] ??= figure;
        return;
      }
      await Plotly.react(slot.plot, withColours(fitData(figure.data), styles), layoutOf(figure, styles), config(name));
      await fit(slot);
      slot.node.dataset.drawn = figure.data.length;
    } catch (error) {
      slot.note.textContent = `This chart could not be drawn: ${error.message}.`;
    }
  }

  // One after the other with a pause between, so that seven charts do not block the page.
  const pause = () => new Promise(resolve => setTimeout(resolve));
  let queue = Promise.resolve();
  function draw(name) {
    if (waiting[name] && slots[name].seen) queue = queue.then(() => drawOne(name)).then(pause);
  }

  onValue(part, value => {
    const { figures, lossy } = JSON.parse(value || '{"figures":{}}');
    for (const badge of root.querySelectorAll('.sl-lossy')) {
      badge.hidden = !lossy;
      badge.title = lossy ?? '';
    }
    for (const [name, figure] of Object.entries(figures)) {
      if (!slots[name]) continue;
      waiting[name] = figure;
      slots[name].note.textContent = figure.note;
      slots[name].node.classList.toggle('sl-chart-empty', !figure.data.length);
      draw(name);
    }
  });

  const observer = new IntersectionObserver(
    entries => {
      for (const { target, isIntersecting } of entries) {
        const name = target.getAttribute('data-chart');
        slots[name].seen = isIntersecting;
        draw(name);
      }
    },
    { rootMargin: '300px' },
  );
  for (const { node } of Object.values(slots)) observer.observe(node);

  // Draws again after a change of theme or layout, because colours and sizes are set at drawing.
  function redraw() {
    for (const [name, slot] of Object.entries(slots)) {
      if (slot.figure) waiting[name] ??= slot.figure;
      draw(name);
    }
  }
  let appearance = `${document.body.className} ${narrow()}`;
  function redrawChanged() {
    const now = `${document.body.className} ${narrow()}`;
    if (now !== appearance) redraw();
    appearance = now;
    Object.values(slots).forEach(fit);
  }
  new MutationObserver(redrawChanged).observe(document.body, { attributes: true, attributeFilter: ['class'] });
  new ResizeObserver(redrawChanged).observe(root);
}
