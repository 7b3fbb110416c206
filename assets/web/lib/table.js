// Draws a table of finished texts. The value is views.table; a cell may be marked, as the best of its column or by a
// verdict. A row of noise has a button that measures it again.
import { make, makeButton, onValue } from './dom.js';

export function mount(part) {
  const { element, trigger } = part;
  const panel = element.querySelector('.sl-sheet'),
    region = panel.querySelector('.sl-sheet-scroll');
  const caption = panel.querySelector('.sl-sheet-caption'),
    head = panel.querySelector('thead'),
    body = panel.querySelector('tbody');

  function row(cells, first) {
    return make(
      'tr',
      '',
      cells.map(([text, mark], place) => {
        const cell = place && !first ? make('td', '', text) : make('th', '', text, { scope: first ? 'col' : 'row' });
        if (mark) cell.dataset.mark = mark;
        if (mark === 'noise')
          cell.append(
            ' ',
            makeButton('Measure again', () => trigger('again'), 'sl-button sl-again'),
          );
        return cell;
      }),
    );
  }

  onValue(part, value => {
    const table = JSON.parse(value || '{"rows":[]}');
    panel.hidden = !table.rows.length;
    if (panel.hidden) return;
    caption.textContent = table.caption;
    region.setAttribute('aria-label', table.caption);
    panel.querySelector('table').setAttribute('aria-label', table.caption);
    head.replaceChildren(
      row(
        table.heads.map(text => [text, '']),
        true,
      ),
    );
    body.replaceChildren(...table.rows.map(cells => row(cells, false)));
  });
}
