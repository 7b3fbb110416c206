// The box “My report”: name, lessons, guesses, exercises and own runs as two files, made in this browser. Nothing is sent.
import { make, makeButton } from '../lib/dom.js';
import { readObject, storeObject } from '../lib/storage.js';
import { readGuesses } from './guess_log.js';
import { readPractice } from './practice_progress.js';
import { readTrace, reportData, reportPage } from './report_file.js';

const KEY = 'speclens-report'; // the name and the learner's own words

function save(text, type, name) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make('a', '', '', { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

// ``box``: a folded element; ``lessons``: the list; ``progress``: how far the learner is in each.
export function mountReport(box, lessons, progress) {
  const kept = readObject(KEY),
    runs = [];
  const name = make('input', '', '', { type: 'text', maxlength: '80', autocomplete: 'off' }),
    words = make('textarea', '', '', { rows: '3', maxlength: '2000' }),
    files = make('input', '', '', { type: 'file', multiple: '', accept: '.json,application/json' }),
    list = make('ul', 'sl-report-runs'),
    said = make('p', '', '', { role: 'status' });
  name.value = String(kept.name ?? '');
  words.value = String(kept.words ?? '');
  for (const field of [name, words])
    field.addEventListener('change', () => storeObject(KEY, { name: name.value, words: words.value }));

  function drawRuns() {
    list.replaceChildren(
      ...runs.map((run, i) =>
        make('li', '', [
          make('bdi', '', run.file),
          ' ',
          makeButton('Leave out', () => {
            runs.splice(i, 1);
            drawRuns();
          }),
        ]),
      ),
    );
  }
  files.addEventListener('change', async () => {
    const chosen = [...files.files];
    files.value = '';
    said.textContent = '';
    for (const file of chosen) {
      try {
        runs.push({ file: file.name, trace: readTrace(file.name, await file.text()) });
      } catch (error) {
        said.textContent = error.message;
      }
    }
    drawRuns();
  });

  function report() {
    const at = new Date().toISOString().slice(0, 16).replace('T', ' ');
    const own = { name: name.value.trim(), words: words.value.trim(), at: `${at} UTC` };
    const practice = readPractice().kinds;
    return reportData({ ...own, lessons, read: progress.read, guesses: readGuesses(), practice, runs });
  }
  const fileName = (data, end) => {
    const who = data.name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-');
    return `speclens-report${who && `-${who}`}.${end}`;
  };
  const asPage = makeButton('Save my report (HTML)', () => {
    const data = report();
    save(reportPage(data), 'text/html', fileName(data, 'html'));
  });
  const asData = makeButton('Save it as data (JSON)', () => {
    const data = report();
    save(JSON.stringify(data), 'application/json', fileName(data, 'json'));
  });
  const field = (label, node) => make('label', 'sl-report-field', [make('span', '', label), node]);
  box.replaceChildren(
    make('summary', '', 'My report'),
    make(
      'p',
      '',
      'Your lessons, first guesses, exercises and runs, to hand in or to keep. It’s made in this browser, and nothing is sent.',
    ),
    field('Name', name),
    field('In my own words', words),
    field('My runs: files of “Save trace (JSON)”', files),
    list,
    said,
    make('p', 'sl-buttons', [asPage, asData]),
  );
}
