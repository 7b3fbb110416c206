// The box “Collect reports”: a teacher chooses or drops the reports of a class, and gets a table and a CSV. It all happens
// in this browser, which sends and stores nothing.
import { make, makeButton } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { saveFile } from '../../lib/save_file.js';
import { COLUMNS, csvText, isNumber, readReport, sortRows, sumsOf } from './report_table.js';

const SHORT = 140; // characters of a cell on screen; the CSV has them all

// ``box``: a folded element.
export function mountCollect(box) {
  const known = new Set(); // a report that is chosen twice, or as both files, counts once
  let rows = [],
    column = 0,
    isReversed = false;
  const files = make('input', '', '', { type: 'file', multiple: '', accept: '.html,.json,text/html,application/json' }),
    said = make('p'),
    refused = make('ul', 'sl-report-runs'),
    result = make('div');

  function headOf({ heads }, i) {
    const isDown = isNumber(rows[0][i][0]) !== isReversed;
    return make('th', '', [makeButton(heads[0], () => sortBy(i), '')], {
      scope: 'col',
      ...(i === column && { 'aria-sort': isDown ? 'descending' : 'ascending' }),
    });
  }
  function cellOf(values, place) {
    const words = values.join(' of '),
      short = words.length > SHORT ? `${words.slice(0, SHORT)}…` : words;
    return make(place ? 'td' : 'th', '', [make('bdi', '', short)], place ? {} : { scope: 'row' });
  }
  const lineOf = cells => make('tr', '', cells.map(cellOf));
  function draw() {
    said.textContent = rows.length ? `${quantity(rows.length, 'report')}.` : '';
    if (!rows.length) return result.replaceChildren();
    rows = sortRows(rows, column, isReversed);
    const table = make('table', '', [
      make('thead', '', [make('tr', '', COLUMNS.map(headOf))]),
      make('tbody', '', rows.map(lineOf)),
      make('tfoot', '', [lineOf([['Together'], ...sumsOf(rows).slice(1)])]),
    ]);
    result.replaceChildren(
      make('div', 'sl-report-table', [table], { tabindex: '0', role: 'region', 'aria-label': 'The reports' }),
      make('p', 'sl-buttons', [
        makeButton('Save as CSV', () => saveFile(csvText(rows), 'text/csv', 'speclens-reports.csv')),
        makeButton('Clear the table', clear),
      ]),
    );
  }
  function sortBy(i) {
    isReversed = i === column && !isReversed;
    column = i;
    draw();
    result.querySelectorAll('button')[i].focus();
  }
  function clear() {
    rows = [];
    known.clear();
    refused.replaceChildren();
    draw();
    files.focus();
  }
  async function add(chosen) {
    const problems = [];
    for (const file of chosen) {
      try {
        const text = await file.text().catch(() => Promise.reject(new Error(`${file.name} can’t be read.`)));
        const { row, data } = readReport(file.name, text);
        if (known.has(data)) throw new Error(`${file.name} is in the table already.`);
        known.add(data);
        rows.push(row);
      } catch (error) {
        problems.push(make('li', '', error.message));
      }
    }
    refused.replaceChildren(...problems);
    draw();
  }
  files.addEventListener('change', () => {
    const chosen = [...files.files];
    files.value = '';
    add(chosen);
  });
  box.addEventListener('dragover', event => event.preventDefault()); // otherwise the browser would open the files
  box.addEventListener('drop', event => {
    event.preventDefault();
    add([...event.dataTransfer.files]);
  });
  box.replaceChildren(
    make('summary', 'sl-button', 'Collect reports'),
    make(
      'p',
      '',
      'Choose your students’ files of “My report”, HTML or JSON, or drop them here. You get a table of the class. The files stay in this browser. Anyone can change a file before handing it in, so don’t grade by the numbers alone.',
    ),
    make('label', 'sl-report-field', [make('span', '', 'Reports'), files]),
    make('div', '', [said, refused], { role: 'status' }),
    result,
  );
}
