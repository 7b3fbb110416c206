// Lets a tool take the v(W) of the reader's own machine in place of the lesson's, wherever the browser keeps one.
import { make } from '../../lib/dom.js';
import { onCurve, ownCurve } from '../../lib/own_curve.js';
import { makeNote, picker } from './widgets.js';

// ``usual``: words for the lesson's own costs; ``changed()``: is called when the reader chooses, and when another curve is
// kept. ``row`` has the list, which is there only beside a curve, and the line that says where it is from.
export function makeCurveChoice(usual, changed) {
  const list = picker('A wider pass costs', [
    [usual, false],
    ['what it costs on my own machine', true],
  ]);
  const select = list.row.querySelector('select'),
    note = makeNote(),
    row = make('div', 'sl-curve-choice');

  const curveOf = () => (list.value ? ownCurve() : null);
  function say() {
    const curve = curveOf();
    note.textContent = curve ? `From ${curve.words} ${curve.note}` : '';
  }
  function begin() {
    select.selectedIndex = Number(ownCurve() !== null);
    row.replaceChildren(...(ownCurve() ? [list.row, note] : []));
    say();
  }
  list.row.addEventListener('input', say);
  onCurve(row, () => {
    begin();
    changed();
  });
  begin();
  return {
    row,
    get curve() {
      return curveOf();
    },
  };
}

// What the curve says in place of these sliders rests while it is chosen.
export function rest(rows, isResting) {
  for (const row of rows) {
    row.classList.toggle('sl-resting', isResting);
    for (const input of row.querySelectorAll('input, select')) input.disabled = isResting;
  }
}
