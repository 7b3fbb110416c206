// Draws one request as a bar, without drafts and with them: the prompt, the drafter's prompt, the first token, the rest
// of the answer. Weighs as engine/tools/bench/whole_request.py does; a test compares the two.

import { make } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { paysFrom } from '../../lib/speedup_model.js';
import { figure, makeNote, makeResult, slider } from '../widgets/widgets.js';

const KEPT = 0.9; // of a prompt that the cache knows; the question at its end is new

/** How long a request takes. ``rates``: tokens a second that are read from the prompt, and written.
 * ``extra``: the part of the reading that only a drafter causes.
 * @param {{ unread: number, answer: number, rates: { read: number, write: number }, plain: { read: number, write: number } }} request */
function partsOf({ unread, answer, rates, plain }) {
  const prompt = unread / plain.read,
    extra = Math.max(0, unread / rates.read - prompt),
    first = 1 / plain.write;
  const rest = (answer - 1) / rates.write;
  return { prompt, extra, first, rest, total: prompt + extra + first + rest };
}

/** Both requests, and the answer length from which drafting pays. ``isCached``: the prompt is in the cache;
 * ``isHybrid``: its model has a running state, with which drafts find nothing there. */
export function requests({ prompt, answer, isCached, isHybrid }, { plain, drafting }) {
  const left = isCached ? (1 - KEPT) * prompt : prompt,
    leftDrafting = isHybrid ? prompt : left;
  const without = partsOf({ unread: left, answer, rates: plain, plain }),
    withDrafts = partsOf({ unread: leftDrafting, answer, rates: drafting, plain });
  const firstOf = parts => parts.total - parts.rest;
  const pays = paysFrom(firstOf(withDrafts) - firstOf(without), 1 / plain.write, 1 / drafting.write);
  return { without, withDrafts, pays, speedup: without.total / withDrafts.total };
}

const KINDS = {
  prompt: 'reading the prompt',
  extra: 'the drafter’s part of it',
  first: 'the first token',
  rest: 'the rest of the answer',
};

// A bar of both, on one scale: ``longest`` seconds fill it.
function bar() {
  const pieces = Object.fromEntries(Object.keys(KINDS).map(kind => [kind, make('i', `sl-prompt-${kind}`)])),
    node = make('div', 'sl-ruler-bar', Object.values(pieces), { role: 'img' });
  function set(name, parts, longest) {
    for (const [kind, piece] of Object.entries(pieces)) piece.style.width = `${(100 * parts[kind]) / longest}%`;
    const words = Object.entries(KINDS).map(([kind, what]) => `${what} ${seconds(parts[kind])}`);
    node.setAttribute('aria-label', `${name}: ${words.join(', ')}.`);
  }
  return { node, set };
}

const seconds = value => `${value.toFixed(value < 10 ? 2 : 1)} s`;

function toggle(words, isOn = false) {
  const input = make('input', '', '', { type: 'checkbox' });
  input.checked = isOn;
  return { input, row: make('label', 'sl-prompt-switch', [input, make('span', '', words)]) };
}

// ``plain``, ``drafting``: {read, write}, tokens a second without drafts and with them; ``source``: who measured them.
export function makePromptBar({ plain, drafting, source }, touched) {
  const prompt = slider('Tokens of the prompt', { low: 100, high: 16000, step: 100, value: 8000, words: String }),
    answer = slider('Tokens of the answer', { low: 10, high: 3000, step: 10, value: 100, words: String });
  const hasDrafts = toggle('drafts', true),
    isCached = toggle('the prompt is in the cache, but for its last tenth'),
    isHybrid = toggle('a hybrid model, whose cache drafts don’t find');
  const bars = { plain: bar(), drafting: bar() },
    names = { plain: make('span'), drafting: make('span') },
    result = makeResult(),
    aside = makeNote('', { role: 'status' });
  const ruler = make('div', 'sl-ruler', [names.plain, bars.plain.node, names.drafting, bars.drafting.node]);
  const legend = make(
    'p',
    'sl-ruler-legend',
    Object.entries(KINDS).map(([kind, words]) => make('span', '', [make('i', `sl-prompt-${kind}`), words])),
  );
  let isGuessed = false;

  function draw() {
    const setting = {
      prompt: prompt.value,
      answer: answer.value,
      isCached: isCached.input.checked,
      isHybrid: isHybrid.input.checked,
    };
    const { without, withDrafts, pays, speedup } = requests(setting, { plain, drafting }),
      isOn = hasDrafts.input.checked;
    const longest = Math.max(without.total, isOn ? withDrafts.total : 0);
    bars.plain.set('Without drafts', without, longest);
    bars.drafting.set('With drafts', withDrafts, longest);
    names.plain.textContent = `plain ${seconds(without.total)}`;
    names.drafting.textContent = `drafts ${seconds(withDrafts.total)}`;
    for (const node of [names.drafting, bars.drafting.node]) node.hidden = !isOn;
    const whole = speedup > 1.005 ? 'sooner' : speedup < 0.995 ? 'later' : 'at the same time';
    result.textContent = isOn
      ? `With drafts the first token comes after ${seconds(withDrafts.total - withDrafts.rest)} instead of ${seconds(without.total - without.rest)}. The whole answer comes ${whole}: ${speedup.toFixed(2)} ×.`
      : `The first token comes after ${seconds(without.total - without.rest)}, the whole answer after ${seconds(without.total)}.`;
    aside.textContent = isOn && isGuessed ? `Drafting pays for answers from ${quantity(pays, 'token')} on.` : '';
    Object.assign(result.dataset, { speedup: speedup.toFixed(4), pays: String(pays) });
  }

  const box = figure(
    'One request',
    draw,
    touched,
    ruler,
    legend,
    result,
    aside,
    prompt.row,
    answer.row,
    ...[hasDrafts, isCached, isHybrid].map(each => each.row),
    makeNote(
      `Written: ${plain.write} tokens a second without drafts, ${drafting.write} with them; read: ${plain.read} and ${drafting.read}. ${source} Your model’s will differ.`,
    ),
  );
  box.addEventListener('answered', () => {
    isGuessed = true;
    draw();
  });
  return box;
}
