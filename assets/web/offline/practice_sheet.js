// Draws the printed sheet of the exercises from the seed in the address, #417; for #417-key also its key, on pages of its own.

import { makeMarkup } from '../lessons/page/markup.js';
import { answerText, drawExercise, fillLine, HIGHEST_SEED, numberText } from '../lessons/practice/practice_numbers.js';
import { make, makeButton } from '../lib/dom.js';
import { page } from './page.js';

const { kinds, hasKey } = page.values.practice;
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

function draw() {
  const seed = Math.min(Number(/\d{1,4}/.exec(location.hash)?.[0]) || 1, HIGHEST_SEED),
    exercises = kinds.map(kind => drawExercise(kind, seed));
  document.title = `SpecLens: Exercises ${seed}`;
  const key = make('section', 'sl-practice-key', [
    make('h1', '', `Key to exercises ${seed}`),
    make('ol', '', exercises.map(solution)),
  ]);
  document
    .getElementById('practice')
    .replaceChildren(
      make('section', 'sl-practice-questions', [
        make('div', 'sl-practice-screen', [makeButton('Print', () => window.print())]),
        make('h1', '', `Exercises ${seed}`),
        make('p', 'sl-name', 'Name'),
        make('ol', '', exercises.map(question)),
      ]),
      ...(hasKey && location.hash.endsWith('-key') ? [key] : []),
    );
}
window.addEventListener('hashchange', draw);
draw();
