// A long list of rows of which only those in sight are filled; the others are empty and as high as they were.

function makeWindow(frame, box, fill) {
  const rows = [];                    // elements, all of them in the document
  const near = new Set();             // numbers of those in sight or nearly

  const eyes = new IntersectionObserver(entries => {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      const number = Number(target.dataset.number);
      if (rows[number] !== target) continue;
      if (isIntersecting) { near.add(number); open(number); } else { near.delete(number); shut(number, boundingClientRect.height); }
    }
  }, { root: frame, rootMargin: '500px 0px' });

  function open(number) {
    const row = rows[number];
    fill(row, number);
    row.setAttribute('role', 'row');      // an empty one is none
    row.dataset.open = '1';
    row.style.minHeight = '';
  }

  // ``height``: as the observer saw it, for asking the row would lay the whole table out anew.
  function shut(number, height) {
    const row = rows[number];
    if (!row.dataset.open || row.contains(document.activeElement)) return;
    row.style.minHeight = `${height}px`;
    delete row.dataset.open;
    row.removeAttribute('role');
    row.replaceChildren();
  }

  // There are ``count`` rows now.
  function grow(count) {
    while (rows.length < count) {
      const row = make('div', 'sl-compare-row');
      row.dataset.number = rows.length;
      rows.push(row);
      box.append(row);
      eyes.observe(row);
    }
  }

  // What these rows show has changed.
  function refresh(numbers) {
    for (const number of numbers) if (near.has(number)) fill(rows[number], number);
  }

  function clear() {
    eyes.disconnect();
    rows.length = 0;
    near.clear();
    box.replaceChildren();
  }

  return { grow, refresh, clear, all: () => refresh([...near]), row: number => rows[number], get count() { return rows.length; } };
}
