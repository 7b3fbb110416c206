// Writes the four numbers. The value is views.tiles: finished texts.
const TITLES = { alpha: ['Acceptance', 'α'], tau: ['Tokens per pass', 'τ'], speed: ['Tokens per second', ''], speedup: ['Speedup', ''] };
const bars = make('div', 'sl-bars'), tiles = {};

for (const [name, [title, symbol]] of Object.entries(TITLES)) {
  const number = make('p', 'sl-number', '–'), note = make('p', 'sl-note'), label = make('p', 'sl-title', [`${title} `, make('span', 'sl-symbol', symbol)]);
  const node = make('div', 'sl-tile', [label, number, name === 'speedup' && bars, note], { 'data-tile': name, role: 'group', 'aria-label': title });
  tiles[name] = { node, number, note };
  element.querySelector('.sl-tiles').append(node);
}

function bar({ label, value, width }) {
  const fill = make('i');
  fill.style.width = `${100 * width}%`;
  return make('div', 'sl-bar', [make('span', '', label), make('span', 'sl-track', [fill]), make('span', '', value)]);
}

onValue(value => {
  if (!value) return;
  const state = JSON.parse(value);
  for (const [name, [number, note]] of Object.entries(state.tiles)) {
    tiles[name].number.textContent = number;
    tiles[name].note.textContent = note;
  }
  tiles.speedup.node.dataset.tone = state.tone || 'level';
  bars.replaceChildren(...state.bars.map(bar));
});
