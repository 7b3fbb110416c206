// Connects the form of the engine in this tab to its worker and to the player.
/** @import { Run } from './player_feed.js' */
/** @import { Fields } from './tab_form.js' */

import { makeFind } from '../lib/dom.js';
import { wholePercent } from '../lib/format.js';
import { saveFile } from '../lib/save_file.js';
import { page } from '../offline/page.js';
import { mount } from '../player/stage.js';
import { isTooSmall, obstacleOf } from './device.js';
import { deleteFiles, isOffline, keepFiles } from './kept_files.js';
import { aboutLine, comparedLine, finishLine, line, numbersLine, roundLine, speedupOf, toneOf } from './player_feed.js';
import { configOf, fillForm, linkOf, offerLink } from './tab_form.js';
import { isBlank } from './tokens.js';

const MB = 1e6;
const find = makeFind(document);
/** @type {HTMLFormElement & { elements: Fields }} */
const form = find('.sl-tab-form');
/** @type {HTMLButtonElement} */
const runButton = find('.sl-tab-run');
/** @type {HTMLInputElement} */
const fileField = find('.sl-tab-open input');
const fields = form.elements;
/** @type {NodeListOf<HTMLButtonElement>} */
const named = document.querySelectorAll('button[data-tab]');
const buttons = Object.fromEntries([...named].map(node => [node.dataset.tab, node]));
// A host may answer for tab.html at tab/, where the other files are one folder up.
const isMoved = /\/tab\/(index\.html)?$/.test(location.pathname),
  site = new URL(isMoved ? '../' : './', location.href);
const source = { address: new URL(page.address, site).href, sha256: page.sha256 },
  host = new URL(source.address).host || 'this site';

// ── the stage ──
const part = { element: find('#stage'), props: { value: '' } };
const readers = [];
/** @type {{ run?: Run, plain?: Run }} */
let lanes = {};
let worker = null;
let isRunning = false;
let count = 0; // of what the stage has shown
mount({ ...part, isOffline: true, watch: (_, read) => readers.push(read), trigger() {} });

function show(text) {
  part.props.value += text;
  for (const read of readers) read();
}
const say = (kind, text, fraction = null) => show(line({ type: 'status', kind, text, fraction }));
function begin() {
  lanes = {};
  part.props.value = line({ type: 'start', run: `tab-${++count}`, segment: 0 });
}

// ── what the page says before it asks for anything ──
function describe(hasModel) {
  const memory = `It takes ${(page.memory / 1e9).toFixed(1)} GB of memory while it runs`;
  const model = hasModel
    ? `The model is in this browser; Run downloads nothing${isOffline() ? ', and needs no network' : ''}.`
    : `The first Run downloads the model, ${Math.round(page.size / MB)} MB, from ${host} and keeps it in this browser.`;
  find('.sl-tab-cost').textContent =
    `${model} ${memory}${hasTooLittle() ? '; this device has too little for that, so it won’t fit here.' : '.'}`;
  buttons.remove.hidden = !hasModel;
}
const hasTooLittle = () => isTooSmall(navigator, matchMedia('(any-pointer: fine)').matches);
const obstacle = obstacleOf(globalThis);

function problem() {
  if (obstacle) return obstacle;
  if (isBlank(fields.prompt.value)) return 'The prompt is empty; type something for the model to answer.';
  if (/\p{Surrogate}/u.test(fields.prompt.value)) return 'The prompt holds half of a character; type it again.';
  return '';
}

// ── the worker ──
const addressOf = name => new URL(name, site).href,
  SCRIPTS = { engine: addressOf('engine/worker.js'), service: addressOf('service_worker.js') },
  policy = globalThis.trustedTypes?.createPolicy('speclens-engine', { createScriptURL: name => SCRIPTS[name] });
const scriptOf = name => (policy ? policy.createScriptURL(name) : SCRIPTS[name]);

function start() {
  worker = new Worker(scriptOf('engine'), { type: 'module' });
  worker.onmessage = ({ data }) => ANSWERS[data.type](data);
  worker.onerror = () => ANSWERS.failed({ words: `The engine could not be started. ${RELOAD}` });
}
function ask(message) {
  try {
    if (!worker) start();
    worker.postMessage(message);
  } catch {
    ANSWERS.failed({ words: 'This browser doesn’t let the page start the engine. Open it in another browser.' });
  }
}
const RELOAD = 'Reload the page. If that does not help, the host does not send engine/worker.js as a script.';
const askWhetherStored = () => ask({ type: 'stored', sha256: page.sha256 });

const ANSWERS = {
  stored: ({ isStored }) => describe(isStored),
  progress: ({ words, share }) =>
    say('progress', share === null ? `${words} …` : `${words}, ${wholePercent(share)}`, share),
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
  setRunning(false);
  buttons.save.disabled = !lanes.run?.started;
  buttons.baseline.disabled = !lanes.plain?.started;
}

/** @param {boolean} value */
function setRunning(value) {
  isRunning = value;
  buttons.stop.disabled = !value;
  for (const node of [runButton, buttons.remove, buttons.save, buttons.baseline, fileField]) node.disabled = value;
}

// ── the form ──
// A click and not the form's submit event, which a frame without the right to send forms never gets.
runButton.addEventListener('click', event => {
  event.preventDefault();
  if (isRunning || !form.reportValidity()) return;
  begin();
  end();
  if (problem()) return say('error', problem());
  setRunning(true);
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
  runButton.disabled = buttons.remove.disabled = true;
  await deleteFiles(SCRIPTS.service).catch(() => {}); // storage that is blocked holds nothing
  ask({ type: 'remove' });
  runButton.disabled = buttons.remove.disabled = false;
});
onClick('save', () => save(lanes.run, 'speclens-tab.json'));
onClick('baseline', () => save(lanes.plain, 'speclens-tab-baseline.json'));
offerLink(buttons.link, fields);

const save = (trace, name) => saveFile(JSON.stringify({ schema: 1, ...trace, branch: null }), 'application/json', name);

fileField.addEventListener('change', async () => {
  const [file] = fileField.files;
  if (!file) return;
  const text = await file.text().catch(() => '');
  fileField.value = '';
  if (isRunning) return; // Run was pressed while the file was read
  begin();
  try {
    open(file.name, JSON.parse(text));
  } catch {
    begin();
    say('error', 'This file is not a run that this page can open.');
  }
  end();
});

function open(name, { schema, started, rounds, finished }) {
  if (schema !== 1) throw new Error();
  if (!started.device.startsWith('browser tab') || !Number.isSafeInteger(started.config.seed))
    return say(
      'error',
      'This page opens only runs that were saved in a browser tab. Open this one on the served page.',
    );
  const run = { started, rounds, finished };
  show(aboutLine(started, page.titles) + rounds.map(roundLine).join('') + finishLine(run));
  show(numbersLine(run, null, false, true));
  lanes = { run };
  say('quiet', [`Opened ${name}.`, ...started.notes].join(' '));
}

find('.sl-tab-note').textContent = fillForm(fields, find('.sl-tab-examples'), page);
/** @type {HTMLAnchorElement | null} */
const back = find('[data-tab="back"]');
back?.addEventListener('click', () => {
  back.href = linkOf(fields, new URL('../', site));
});
if (isMoved)
  for (const link of document.querySelectorAll('nav a'))
    link.setAttribute('href', addressOf(link.getAttribute('href')));
describe(false);
if (!obstacle) askWhetherStored();
