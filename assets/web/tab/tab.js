// Connects the form of the engine in this tab to its worker and to the player.
/** @import { Run } from './player_feed.js' */
/** @import { Fields } from './tab_form.js' */

import { make, makeFind } from '../lib/dom.js';
import { page } from '../offline/page.js';
import { mount } from '../player/stage.js';
import { deleteFiles, isOffline, keepFiles } from './kept_files.js';
import { aboutLine, comparedLine, finishLine, line, numbersLine, roundLine, speedupOf, toneOf } from './player_feed.js';
import { configOf, fillForm, linkOf, offerLink } from './tab_form.js';

const MB = 1e6;
const SMALLEST = 4; // GB of memory, by the browser's own rounded figure, with which the weights in fp32 fit
const find = makeFind(document);
/** @type {HTMLFormElement & { elements: Fields }} */
const form = find('.sl-tab-form');
/** @type {HTMLButtonElement} */
const runButton = find('.sl-tab-run');
const fields = form.elements;
/** @type {NodeListOf<HTMLButtonElement>} */
const named = document.querySelectorAll('button[data-tab]');
const buttons = Object.fromEntries([...named].map(node => [node.dataset.tab, node]));
const source = { address: new URL(page.address, location.href).href, sha256: page.sha256 },
  host = new URL(source.address).host || 'this site';

// ── the stage ──
const part = { element: find('#stage'), props: { value: '' } };
const readers = [];
/** @type {{ run?: Run, plain?: Run }} */
let lanes = {};
let worker = null;
let isRunning = false;
mount({ ...part, isOffline: true, watch: (_, read) => readers.push(read), trigger() {} });

function show(text) {
  part.props.value += text;
  for (const read of readers) read();
}
const say = (kind, text, fraction = null) => show(line({ type: 'status', kind, text, fraction }));
const begin = () => {
  part.props.value = line({ type: 'start', run: crypto.randomUUID(), segment: 0 });
};

// ── what the page says before it asks for anything ──
function describe(hasModel) {
  const memory = `It takes ${(page.memory / 1e9).toFixed(1)} GB of memory while it runs`;
  const model = hasModel
    ? `The model is in this browser; Run downloads nothing${isOffline() ? ', and needs no network' : ''}.`
    : `The first Run downloads the model, ${Math.round(page.size / MB)} MB, from ${host} and keeps it in this browser.`;
  find('.sl-tab-cost').textContent =
    `${model} ${memory}${isTooSmall() ? '; this device has too little for that, so it won’t fit here.' : '.'}`;
  buttons.remove.hidden = !hasModel;
}
const isTooSmall = () =>
  (navigator.deviceMemory ?? SMALLEST) < SMALLEST || /Android|iPhone|iPad/.test(navigator.userAgent);

function obstacle() {
  if (location.protocol === 'file:')
    return 'A page opened from disk can’t start the engine. Open it through a web server.';
  if (!globalThis.isSecureContext)
    return 'Open this page over https. Otherwise the browser can’t check the model or keep it.';
  return '';
}

// ── the worker ──
const SCRIPTS = { engine: 'engine/worker.js', service: 'service_worker.js' },
  policy = globalThis.trustedTypes?.createPolicy('speclens-engine', { createScriptURL: name => SCRIPTS[name] });
const scriptOf = name => (policy ? policy.createScriptURL(name) : SCRIPTS[name]);

function start() {
  worker = new Worker(scriptOf('engine'), { type: 'module' });
  worker.onmessage = ({ data }) => ANSWERS[data.type](data);
  worker.onerror = () => ANSWERS.failed({ words: 'The engine could not be started. Reload the page.' });
}
function ask(message) {
  if (!worker) start();
  worker.postMessage(message);
}
const askWhetherStored = () => ask({ type: 'stored', sha256: page.sha256 });

const ANSWERS = {
  stored: ({ isStored }) => describe(isStored),
  progress: ({ words, share }) =>
    say('progress', share === null ? `${words} …` : `${words}, ${Math.round(100 * share)} %`, share),
  event({ lane, kind, event }) {
    lanes[lane] ??= { started: null, rounds: [], finished: null };
    const trace = lanes[lane];
    if (kind === 'round') trace.rounds.push(event);
    else trace[kind] = event;
    const { run, plain = null } = lanes,
      isMeasuring = !plain?.finished && run.started.config.method !== 'none' && run.finished?.reason !== 'cancelled';
    const drawn = lane === 'plain' ? '' : DRAWN[kind](run);
    show(drawn + numbersLine(run, plain, isMeasuring));
    if (kind === 'started') say('progress', lane === 'plain' ? 'The same without drafting …' : 'Running …');
  },
  over({ note }) {
    const { run, plain } = lanes;
    const tone = plain && toneOf(run, plain);
    if (tone) show(comparedLine(run, plain));
    say(tone === 'slower' ? 'slow' : tone === 'faster' ? 'good' : 'quiet', verdict(lanes, tone, note));
    end();
    askWhetherStored();
    keepFiles(scriptOf('service'));
  },
  // After a refusal the engine is as good as before.
  failed({ words, isRefusal = false }) {
    if (!part.props.value) begin();
    say('error', words);
    if (isRefusal) end();
    else abandon();
  },
};
const DRAWN = {
  started: ({ started }) => aboutLine(started, page.titles),
  round: ({ rounds }) => roundLine(rounds.at(-1)),
  finished: finishLine,
};

const VERDICTS = {
  noise: () => 'The two times contradict each other. Measure again.',
  level: value => `About as fast as plain decoding in this tab: ${value}× (one run each).`,
  faster: value => `${value}× the speed of plain decoding in this tab (one run each).`,
  slower: value => `Slower here: ${value}× the speed without drafting (one run each). Try a text that repeats itself.`,
};
/** @param {{ run?: Run, plain?: Run }} lanes */
function verdict({ run, plain }, tone, note) {
  const wasStopped = [run, plain].some(lane => lane?.finished?.reason === 'cancelled'),
    words = tone ? VERDICTS[tone](speedupOf(run, plain).toFixed(2)) : wasStopped ? 'Stopped.' : 'Done.';
  return [words, note, ...run.started.notes].filter(Boolean).join(' ');
}

// Ends the worker with all that it holds or is loading; the next Run starts another.
function abandon() {
  worker?.terminate();
  worker = null;
  end();
}

function end() {
  isRunning = false;
  runButton.disabled = false;
  buttons.stop.disabled = true;
  buttons.save.disabled = !lanes.run?.started;
  buttons.baseline.disabled = !lanes.plain?.started;
}

// ── the form ──
form.addEventListener('submit', event => {
  event.preventDefault();
  if (isRunning) return;
  begin();
  if (obstacle()) return say('error', obstacle());
  if (!fields.prompt.value.trim()) return say('error', 'The prompt is empty; type something for the model to answer.');
  lanes = {};
  isRunning = true;
  runButton.disabled = buttons.save.disabled = buttons.baseline.disabled = true;
  buttons.stop.disabled = false;
  const method = fields.method.value;
  const config = name => configOf(fields, page.defaults, name);
  const runs = [['run', config(method)], ...(method === 'none' ? [] : [['plain', config('none')]])];
  say('progress', 'Starting …');
  ask({ type: 'run', lanes: runs, source });
});

const onClick = (name, action) => buttons[name].addEventListener('click', action);
onClick('stop', () => {
  if (lanes.run) return ask({ type: 'stop' });
  abandon(); // it still downloads or loads
  say('quiet', 'Stopped.');
});
onClick('remove', async () => {
  await deleteFiles(SCRIPTS.service);
  ask({ type: 'remove' });
});
onClick('save', () => save(lanes.run, 'speclens-tab.json'));
onClick('baseline', () => save(lanes.plain, 'speclens-tab-baseline.json'));
offerLink(buttons.link, fields);

function save(trace, name) {
  const text = JSON.stringify({ schema: 1, ...trace, branch: null }),
    url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = make('a', '', '', { href: url, download: name });
  link.click();
  URL.revokeObjectURL(url);
}

/** @type {HTMLInputElement} */
const fileField = find('.sl-tab-open input');
fileField.addEventListener('change', async () => {
  const file = fileField.files[0];
  if (!file || isRunning) return;
  begin();
  try {
    const { schema, started, rounds, finished } = JSON.parse(await file.text());
    if (schema !== 1) throw new Error();
    if (!started.device.startsWith('browser tab'))
      return say(
        'error',
        'This page opens only runs that were saved in a browser tab. Open this one on the served page.',
      );
    const run = { started, rounds, finished };
    show(aboutLine(started, page.titles) + rounds.map(roundLine).join('') + finishLine(run));
    show(numbersLine(run, null, false, true));
    lanes = { run };
    say('quiet', [`Opened ${file.name}.`, ...started.notes].join(' '));
  } catch {
    begin();
    say('error', 'This file is not a run that this page can open.');
  } finally {
    fileField.value = '';
    end();
  }
});

find('.sl-tab-note').textContent = fillForm(fields, find('.sl-tab-examples'), page);
/** @type {HTMLAnchorElement | null} */
const back = find('[data-tab="back"]');
back?.addEventListener('click', () => {
  back.href = linkOf(fields, new URL('../', location.href));
});
describe(false);
if (!obstacle()) askWhetherStored();
