// Makes the widgets of lessons: sliders, lists, results, a small chart. Has no formulas.

const short = x => Number.isInteger(x) ? String(x) : Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(2);

// A labelled slider; ``words`` turns its value into the text beside it.
function slider(label, { low, high, step, value, words = short }, changed) {
  const row = make('label', 'sl-slide'), input = make('input'), shown = make('output', '', words(value));
  Object.assign(input, { type: 'range', min: low, max: high, step });
  input.value = value;
  input.addEventListener('input', () => {
    shown.textContent = words(Number(input.value));
    input.setAttribute('aria-valuetext', shown.textContent);
    changed();
  });
  row.append(make('span', '', label), input, shown);
  return { row, get value() { return Number(input.value); }, set value(x) { input.value = x; shown.textContent = words(Number(input.value)); } };
}

// A labelled list; ``options``: [words, value].
function picker(label, options, changed, chosen = 0) {
  const row = make('label', 'sl-pick'), select = make('select');
  options.forEach(([words], index) => { const option = make('option', '', words); option.value = index; select.append(option); });
  select.selectedIndex = chosen;
  select.addEventListener('change', changed);
  row.append(make('span', '', label), select);
  return { row, get value() { return options[select.selectedIndex][1]; }, get words() { return options[select.selectedIndex][0]; } };
}

// A line of result, which a screen reader reads when it changes.
function makeResult(text = '') {
  const line = make('p', 'sl-result', text);
  line.setAttribute('role', 'status');
  return line;
}

function figure(title, ...parts) {
  const box = make('div', 'sl-figure-box');
  box.append(make('h4', '', title), ...parts);
  return box;
}

// One of several bars on the same scale: its name, its length (0 to 1), and its number.
function meter(kind = '') {
  const row = make('div', `sl-meter ${kind}`), name = make('span', 'sl-meter-name'), track = make('span', 'sl-meter-track');
  const fill = make('i'), number = make('span', 'sl-meter-number');
  track.append(fill);
  row.append(name, track, number);
  return {
    row, track,
    set(words, share, shown) {
      name.textContent = words;
      fill.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
      number.textContent = shown;
    },
  };
}

// Columns over whole numbers, with a line across at ``level``; ``marked`` is drawn darker.
function columns(values, { marked, level, top, name }) {
  const box = make('div', 'sl-columns');
  box.setAttribute('role', 'img');
  box.setAttribute('aria-label', name);
  const line = make('i', 'sl-columns-level');
  line.style.bottom = `calc(1.5em + (100% - 3em) * ${level / top})`;
  values.forEach((value, index) => {
    const column = make('div', index === marked ? 'sl-column sl-column-best' : 'sl-column'), bar = make('i');
    bar.style.height = `calc((100% - 3em) * ${Math.max(0, value / top)})`;
    column.append(make('b', '', value.toFixed(2)), bar, make('span', '', String(index)));
    box.append(column);
  });
  box.append(line);
  return box;
}
