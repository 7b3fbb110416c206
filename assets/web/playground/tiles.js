// Writes the four numbers. The value is views.tiles: finished texts.
const tiles = {};
for (const tile of element.querySelectorAll('.sl-tile')) tiles[tile.dataset.tile] = tile;
const bars = element.querySelector('.sl-bars');

function bar({ label, value, width }) {
  const fill = make('i');
  fill.style.width = `${100 * width}%`;
  return make('div', 'sl-bar', [make('span', '', label), make('span', 'sl-track', [fill]), make('span', '', value)]);
}

onValue(value => {
  if (!value) return;
  const state = JSON.parse(value);
  for (const [name, [number, note]] of Object.entries(state.tiles)) {
    tiles[name].querySelector('.sl-number').textContent = number;
    tiles[name].querySelector('.sl-note').textContent = note;
  }
  tiles.speedup.dataset.tone = state.tone || 'level';
  bars.replaceChildren(...state.bars.map(bar));
});
