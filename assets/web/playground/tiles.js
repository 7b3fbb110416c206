// Writes the four numbers. The value is views.tiles: finished texts.
const tiles = {};
for (const tile of element.querySelectorAll('.sl-tile')) tiles[tile.dataset.tile] = tile;
const bars = element.querySelector('.sl-bars');

function bar({ label, value, width }) {
  const row = make('div', 'sl-bar'), track = make('span', 'sl-track');
  track.appendChild(make('i')).style.width = `${100 * width}%`;
  row.append(make('span', '', label), track, make('span', '', value));
  return row;
}

function draw() {
  if (!props.value) return;
  const state = JSON.parse(props.value);
  for (const [name, [number, note]] of Object.entries(state.tiles)) {
    tiles[name].querySelector('.sl-number').textContent = number;
    tiles[name].querySelector('.sl-note').textContent = note;
  }
  tiles.speedup.dataset.tone = state.tone || 'level';
  bars.replaceChildren(...state.bars.map(bar));
}

watch('value', draw);
draw();
