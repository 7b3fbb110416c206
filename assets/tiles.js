// The four numbers. Everything arrives as finished text; this only puts it in place.
const tiles = {};
for (const tile of element.querySelectorAll('.sl-tile')) tiles[tile.dataset.tile] = tile;
const bars = element.querySelector('.sl-bars');

function bar({ label, value, width }) {
  const row = document.createElement('div');
  row.className = 'sl-bar';
  const name = document.createElement('span'), track = document.createElement('span'), number = document.createElement('span');
  name.textContent = label;
  track.className = 'sl-track';
  track.appendChild(document.createElement('i')).style.width = `${100 * width}%`;
  number.textContent = value;
  row.append(name, track, number);
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
