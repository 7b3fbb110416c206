// The box “My report”: name, lessons, guesses, exercises and own runs as two files, made in this browser. Nothing is sent.
// Runs of this page enter it by themselves; the addresses of their traces are noted by app/playground/page.py.
import { make, makeButton } from '../../lib/dom.js';
import { saveFile } from '../../lib/save_file.js';
import { readObject, storeObject } from '../../lib/storage.js';
import { readGuesses, readRules } from '../progress/guess_log.js';
import { readPractice } from '../progress/practice_progress.js';
import { readTrace, reportData, reportPage, summaryOf } from './report_file.js';

const KEY = 'speclens-report'; // the name and the learner's own words
const RUNS = 'speclens-runs'; // addresses

function notedRuns() {
  try {
    return JSON.parse(sessionStorage.getItem(RUNS) ?? '[]');
  } catch {
    return []; // a browser that stores nothing
  }
}

// ``box``: a folded element; ``lessons``: the list; ``kinds``: the exercises; ``progress``: how far the learner is in each
// lesson; ``isServed``: this page can run a model.
export function mountReport(box, lessons, kinds, progress, isServed) {
  const kept = readObject(KEY),
    taken = new Set(),
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
      ...runs.map((run, i) => {
        const { prompt, settings } = summaryOf(run.trace);
        return make('li', '', [
          make('bdi', '', `“${prompt.slice(0, 60)}${prompt.length > 60 ? '…' : ''}”`),
          ` ${settings} (`,
          make('bdi', '', run.file),
          ') ',
          makeButton('Leave out', () => {
            runs.splice(i, 1);
            drawRuns();
          }),
        ]);
      }),
    );
  }
  // A run that was measured again takes its own place.
  function add(file, text) {
    const trace = readTrace(file, text),
      at = runs.findIndex(run => run.trace.started.at === trace.started.at && run.file === file);
    runs.splice(at < 0 ? runs.length : at, at < 0 ? 0 : 1, { file, trace });
  }
  async function takeRuns() {
    for (const url of notedRuns()) {
      if (taken.has(url)) continue;
      taken.add(url);
      try {
        const answer = await fetch(url);
        if (answer.ok) add(decodeURIComponent(url.split('/').pop()), await answer.text());
      } catch {
        /* the server is gone, and its files with it */
      }
    }
    drawRuns();
  }
  files.addEventListener('change', async () => {
    const chosen = [...files.files];
    files.value = '';
    said.textContent = '';
    for (const file of chosen) {
      try {
        add(file.name, await file.text());
      } catch (error) {
        said.textContent = error.message;
      }
    }
    drawRuns();
  });

  function report() {
    const at = new Date().toISOString().slice(0, 16).replace('T', ' ');
    const own = { name: name.value.trim(), words: words.value.trim(), at: `${at} UTC` };
    const [guesses, practice, rules] = [readGuesses(), readPractice(), readRules()];
    return reportData({ ...own, lessons, read: progress.read, guesses, practice, rules, runs });
  }
  const fileName = (data, end) => {
    const who = data.name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-');
    return `speclens-report${who && `-${who}`}.${end}`;
  };
  const asPage = makeButton('Save my report (HTML)', () => {
    const data = report();
    saveFile(reportPage(data, kinds), 'text/html', fileName(data, 'html'));
  });
  const asData = makeButton('Save it as data (JSON)', () => {
    const data = report();
    saveFile(JSON.stringify(data), 'application/json', fileName(data, 'json'));
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
    ...(isServed ? [make('p', '', 'Runs that you finish on this page are added by themselves.')] : []),
    list,
    field(`${isServed ? 'Other' : 'My'} runs: files of “Save trace (JSON)”`, files),
    said,
    make('p', 'sl-buttons', [asPage, asData]),
  );
  document.addEventListener('speclens-run', takeRuns);
  takeRuns();
}
