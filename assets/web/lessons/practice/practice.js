// Shows the exercises with new numbers every time: the list of kinds, and the open one with its hints and its checker.
// The address holds the seed of the numbers and the kind: #practice-417-tree.

import { isClassLink } from '../../lib/class_link.js';
import { make, makeButton, makeFind, setText } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { makePracticeProgress } from '../progress/practice_progress.js';
import { answerText, drawExercise, fillLine, formSentence, HIGHEST_SEED, judge } from './practice_numbers.js';

const MARKS = { right: '✓', shown: '–', '': '' };
const WORDS = { right: 'solved', shown: 'solution read', '': 'open' };
const hasMouse = () => matchMedia('(pointer: fine)').matches;
const randomSeed = () => 1 + Math.floor(Math.random() * HIGHEST_SEED);

// ``value``: app/lessons_tab/practice.py has it; ``sheet``: the address of the printed page.
export function mountPractice(box, { kinds, words, hasKey }, markup, sheet) {
  const progress = makePracticeProgress(),
    [bar, list, place] = ['sl-practice-bar', 'sl-practice-kinds', 'sl-practice-open'].map(name =>
      box.querySelector(`.${name}`),
    );
  let seed = 0,
    name = '';
  const forClass = isClassLink();
  const hashOf = (kind, numbers = seed) => `#practice-${numbers}-${kind}`;
  const stateOf = kind => progress.read(seed, kind.name).end;

  const count = make('span', 'sl-practice-count', '', { role: 'status' }),
    set = make('input', '', '', { type: 'number', min: 1, max: HIGHEST_SEED, step: 1, required: '' }),
    sheets = [make('a', 'sl-button', 'Print this sheet', { target: '_blank' })];
  if (hasKey && !forClass) sheets.push(make('a', 'sl-button', 'Print it with the key', { target: '_blank' }));
  set.addEventListener('change', () => {
    if (set.reportValidity()) location.hash = hashOf(name, set.valueAsNumber);
  });
  const field = make('label', 'sl-practice-set', ['Set', set], {
    title: 'The same set has the same numbers for everyone.',
  });
  bar.replaceChildren(field, count, makeButton('New numbers', newNumbers), ...sheets);

  function drawBar() {
    const solved = kinds.filter(kind => stateOf(kind) === 'right').length;
    setText(count, `${solved} of ${kinds.length} solved`);
    set.value = String(seed);
    for (const [i, link] of sheets.entries())
      link.setAttribute('href', `${sheet}${forClass ? '?only' : ''}#${seed}${i ? '-key' : ''}`);
  }
  function newNumbers() {
    let other = randomSeed();
    while (other === seed) other = randomSeed();
    location.hash = hashOf(name, other);
  }
  function drawList() {
    list.replaceChildren(
      ...kinds.map((kind, i) => {
        const end = stateOf(kind),
          current = kind.name === name ? { 'aria-current': 'true' } : {};
        const content = [
          make('span', 'sl-practice-number', String(i + 1)),
          make('span', 'sl-practice-title', kind.title),
          make('span', 'sl-practice-mark', MARKS[end], { 'aria-hidden': 'true' }),
        ];
        const attributes = { href: hashOf(kind.name), title: kind.title, 'data-end': end, ...current };
        return make('li', '', [
          make('a', '', content, { ...attributes, 'aria-label': `${i + 1}. ${kind.title}, ${WORDS[end]}` }),
        ]);
      }),
    );
    const current = list.querySelector('[aria-current]');
    list.scrollLeft = current.offsetLeft - list.offsetLeft - list.clientWidth / 2; // a phone has them in one row
  }
  function redraw() {
    drawBar();
    drawList();
  }

  function open() {
    const kind = kinds.find(each => each.name === name);
    place.replaceChildren(...exerciseNodes(drawExercise(kind, seed), { seed, progress, markup, redraw, next: wayOn }));
    redraw();
  }
  // The next exercise that is still open, or new numbers.
  function wayOn() {
    const at = kinds.findIndex(kind => kind.name === name),
      next = [...kinds.slice(at + 1), ...kinds.slice(0, at)].find(kind => !stateOf(kind));
    return next
      ? make('a', 'sl-button sl-primary', `Next: ${next.title}`, { href: hashOf(next.name) })
      : makeButton('All done: new numbers', newNumbers, 'sl-button sl-primary');
  }

  return {
    // The exercise of the address; without a seed the latest numbers of this browser.
    show(wantedSeed, wantedName) {
      const known = kinds.find(kind => kind.name === wantedName) ?? kinds[0];
      seed = Math.min(wantedSeed || progress.latest() || randomSeed(), HIGHEST_SEED);
      name = known.name;
      markup.use(words);
      open();
    },
    focus() {
      const field = hasMouse() && place.querySelector('input:not([readonly])');
      (field || place.querySelector('h3')).focus({ preventScroll: true });
    },
    hash: () => hashOf(name).slice(1),
    forget: progress.forget,
    // The kinds that a lesson teaches, as links for its end.
    links: slug =>
      kinds
        .filter(({ lesson }) => lesson.slug === slug)
        .map(kind =>
          make('a', 'sl-button', kind.title, { href: hashOf(kind.name, progress.latest() || randomSeed()) }),
        ),
  };
}

function exerciseNodes(exercise, { seed, progress, markup, redraw, next }) {
  const { kind, scope } = exercise,
    { name } = kind;
  const now = () => progress.read(seed, name),
    say = (tag, line) => markup.line(tag, fillLine(line, scope));
  const reply = make('div', 'sl-reply', '', { role: 'status' }),
    hints = make('ol', 'sl-practice-hints'),
    ways = make('div', 'sl-buttons');

  function drawHints() {
    const { hints: read, end } = now();
    hints.replaceChildren(...kind.hints.slice(0, end ? undefined : read).map(line => say('li', line)));
    hints.hidden = !hints.children.length;
    ways.replaceChildren(...(end ? [next()] : [read < kind.hints.length ? hintButton(read) : showButton()]));
  }
  const hintButton = read =>
    makeButton(`Hint ${read + 1} of ${kind.hints.length}`, () => {
      progress.hint(seed, name);
      drawHints();
      ways.querySelector('button').focus();
    });
  const showButton = () =>
    makeButton('Show the solution', () => {
      progress.show(seed, name);
      finish();
    });

  function drawEnd() {
    const { end } = now(),
      text = answerText(exercise),
      answer = kind.options.length ? `It’s “${text}”.` : `It’s ${text}.`;
    reply.dataset.right = String(end === 'right');
    reply.replaceChildren(make('strong', '', end === 'right' ? `Right. ${answer}` : answer), say('p', kind.explain));
    entry.settle(text);
    drawHints();
  }
  function finish() {
    drawEnd();
    redraw();
    makeFind(ways)('.sl-button').focus({ preventScroll: true });
  }
  function check(text) {
    const verdict = kind.options.length ? judgeOption(exercise, Number(text)) : judge(exercise, text);
    if (!verdict) {
      reply.textContent = text.trim() ? 'This can’t be read as a number.' : 'Type a number.';
      delete reply.dataset.right;
      return;
    }
    progress.check(seed, name, kind.options.length ? answerText({ kind, answer: text }) : text, verdict.isRight);
    if (verdict.isRight) return finish();
    reply.dataset.right = 'false';
    reply.replaceChildren(make('strong', '', 'Not yet. '), say('span', verdict.says));
    redraw();
  }

  const entry = (kind.options.length ? makeChoice : makeField)(exercise, now(), check, text =>
    progress.write(seed, name, text),
  );
  const { right, first } = progress.countsOf(name);
  const before = right ? `Solved ${quantity(right, 'time')} so far, ${first} at the first try without a hint.` : '';
  drawHints();
  if (now().end) drawEnd();
  return [
    make('h3', '', kind.title, { tabindex: -1 }),
    say('p', kind.text),
    kind.show.length &&
      make(
        'pre',
        'sl-practice-show',
        kind.show.map(line => say('div', line)),
        { tabindex: 0 },
      ),
    entry.node,
    reply,
    hints,
    ways,
    make('p', 'sl-figure-note', [
      make('a', 'sl-lesson-link', `Lesson ${kind.lesson.number}`, { href: `#lesson-${kind.lesson.slug}` }),
      ` teaches this: “${kind.lesson.title}”. ${before}`,
    ]),
  ].filter(Boolean);
}

// The wrong option is the index of its own mistake.
function judgeOption({ answer, scope, mistakes }, index) {
  const isRight = index === answer;
  return { isRight, says: isRight ? [] : fillLine(mistakes.find(({ value }) => value === index).says, scope) };
}

function makeField(exercise, { text, end }, check, keep) {
  const { unit } = exercise.kind,
    note = make('p', 'sl-figure-note', formSentence(exercise), { id: 'sl-practice-note' });
  const field = make('input', '', '', {
    inputmode: 'decimal',
    autocomplete: 'off',
    maxlength: 24,
    'aria-label': unit ? `Your answer, ${unit}` : 'Your answer',
    'aria-describedby': note.id,
  });
  field.value = text;
  const go = make('button', 'sl-button', 'Check', { type: 'submit' }),
    form = make('form', 'sl-guess', [field, make('span', '', unit), go]);
  form.addEventListener('submit', event => {
    event.preventDefault();
    if (go.disabled) return;
    check(field.value);
    if (!go.disabled) field.select();
  });
  field.addEventListener('input', () => keep(field.value));
  function settle(answer) {
    go.disabled = field.readOnly = true;
    if (!field.value) field.value = answer;
  }
  if (end) settle('');
  return { node: make('div', '', [form, note]), settle };
}

function makeChoice({ kind, answer }, now, check) {
  const buttons = kind.options.map((_, index) =>
    makeButton(
      answerText({ kind, answer: index }),
      () => {
        if (buttons[index].getAttribute('aria-disabled') !== 'true') check(String(index));
      },
      'sl-option',
    ),
  );
  function settle() {
    for (const [index, button] of buttons.entries()) {
      button.setAttribute('aria-disabled', 'true');
      if (index === answer) button.dataset.right = 'true';
    }
  }
  return { node: make('div', 'sl-options', buttons), settle };
}
