// Draws the printed sheet of the exercises from the address: #417 is the seed, #417-key has the key, too, on pages of its own,
// and #417-tree-cache has these two exercises alone. Ticks write the address, so that it makes the same sheet again.

import { makeMarkup } from '../lessons/page/markup.js';
import { answerText, drawExercise, fillLine, HIGHEST_SEED, numberText } from '../lessons/practice/practice_numbers.js';
import { isClassLink } from '../lib/class_link.js';
import { make, makeButton } from '../lib/dom.js';
import { page } from './page.js';

const { kinds, hasKey } = page.values.practice;
const mayHaveKey = hasKey && !isClassLink();
const markup = makeMarkup(make('div'));

// Words of the glossary have no card on paper.
const lineOf = (tag, line, scope, className) =>
  markup.line(
    tag,
    fillLine(line, scope).map(([style, text]) => [style === 'word' ? 'text' : style, text]),
    className,
  );

function question({ kind, scope }) {
  const blank = make('p', 'sl-practice-blank', [make('span', 'sl-blank'), kind.unit]),
    options = make(
      'ul',
      'sl-boxes',
      kind.options.map(line => lineOf('li', line, scope)),
    );
  return make('li', '', [
    make('strong', '', kind.title.endsWith('?') ? `${kind.title} ` : `${kind.title}. `),
    lineOf('span', kind.text, scope),
    kind.show.length &&
      make(
        'pre',
        'sl-practice-show',
        kind.show.map(line => lineOf('div', line, scope)),
      ),
    kind.options.length ? options : blank,
  ]);
}

function solution(exercise) {
  const { kind, scope, within, mistakes } = exercise;
  const usual = mistakes.filter(({ value }) => !kind.options.length && Number.isFinite(value));
  const exact = within ? ` (±${within})` : '';
  return make('li', '', [
    make('strong', '', `${answerText(exercise)}${kind.options.length ? '' : exact}. `),
    lineOf('span', kind.explain, scope),
    ...usual.map(({ value, says }) =>
      make('div', 'sl-practice-mistake', [`${numberText(value, `.${kind.digits}f`)}: `, lineOf('span', says, scope)]),
    ),
  ]);
}

const sheet = document.getElementById('practice'),
  drawn = make('div');
const makeTick = (name, label) => {
  const box = make('input', '', '', { type: 'checkbox', value: name });
  box.addEventListener('change', write);
  return make('label', '', [box, label]);
};
const chooser = make('div', 'sl-practice-screen', [
  makeButton('Print', () => window.print()),
  mayHaveKey && makeTick('key', 'With the key'),
  make('details', '', [
    make('summary', '', 'Choose exercises'),
    make('p', '', 'Tick some to print only these. The address keeps your choice.'),
    make(
      'div',
      'sl-practice-choice',
      kinds.map(({ name, title }) => makeTick(name, title)),
    ),
  ]),
]);
const ticks = [...chooser.querySelectorAll('input')];

// The seed, and the ticks that the address names.
function readAddress() {
  const [, ...names] = location.hash.split('-');
  for (const tick of ticks) tick.checked = names.includes(tick.value);
  return Math.min(Number(/\d{1,4}/.exec(location.hash)?.[0]) || 1, HIGHEST_SEED);
}
function write() {
  const names = ticks.filter(({ checked }) => checked).map(({ value }) => value);
  location.replace(`#${[/\d{1,4}/.exec(location.hash)?.[0] ?? 1, ...names].join('-')}`);
}

function draw() {
  const seed = readAddress(),
    isTicked = name => ticks.some(({ checked, value }) => checked && value === name);
  const chosen = kinds.filter(({ name }) => isTicked(name)),
    exercises = (chosen.length ? chosen : kinds).map(kind => drawExercise(kind, seed));
  document.title = `SpecLens: Exercises ${seed}`;
  const key = make('section', 'sl-practice-key', [
    make('h1', '', `Key to exercises ${seed}`),
    make('ol', '', exercises.map(solution)),
  ]);
  drawn.replaceChildren(
    make('section', 'sl-practice-questions', [
      make('h1', '', `Exercises ${seed}`),
      make('p', 'sl-name', 'Name'),
      make('ol', '', exercises.map(question)),
    ]),
    ...(isTicked('key') ? [key] : []),
  );
}
sheet.replaceChildren(chooser, drawn);
window.addEventListener('hashchange', draw);
draw();
