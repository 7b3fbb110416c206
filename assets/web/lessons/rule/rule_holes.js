// Lets learners fill the holes of a rule, with blocks or with an expression, and check it. Knows no rule: each exercise
// brings its holes and its grader.

import { make, makeButton } from '../../lib/dom.js';
import { noteRule, readRules } from '../progress/guess_log.js';
import { figure, makeNote, makeResult } from '../widgets/widgets.js';

/** ``holes``: { label, blocks, note } of each. ``grade(texts)`` returns { verdict, words, mistakes: nodes, title,
 * decisions: [{ isRight, words }] }, or throws an Error with its ``hole``.
 * @param {{ title: string, holes: any[], grade: (texts: string[]) => any }} exercise */
export function makeHoles({ title, holes: described, grade }, touched) {
  const stored = readRules()[title] ?? {};
  const result = makeResult(),
    mistakes = make('div', 'sl-rule-named'),
    decisions = make('ul', 'sl-rule-decisions');
  const holes = described.map(({ label, blocks: texts, note }, hole) => {
    const id = `sl-${title.replace(/\W/g, '')}-${hole}`;
    const field = make('input', '', '', {
      type: 'text',
      maxlength: 80,
      spellcheck: 'false',
      autocapitalize: 'off',
      autocomplete: 'off',
      'aria-label': label,
      'aria-describedby': `${id}-note ${id}-problem`,
    });
    field.value = typeof stored.texts?.[hole] === 'string' ? stored.texts[hole] : '';
    const problem = make('p', 'sl-rule-problem', '', { id: `${id}-problem`, role: 'alert' });
    const blocks = texts.map(text =>
      makeButton(
        [make('code', '', text)],
        () => {
          field.value = text;
          keepTexts();
        },
        'sl-button sl-rule-block',
        { 'aria-label': `${label} ${text}` },
      ),
    );
    const row = make('div', 'sl-rule-hole', [
      make('div', 'sl-rule-line', [make('span', '', label), field]),
      make('div', 'sl-buttons', blocks),
      makeNote(note, { id: `${id}-note` }),
      problem,
    ]);
    return { row, field, problem, blocks };
  });

  const textsNow = () => holes.map(({ field }) => field.value);
  function mark() {
    for (const { field, blocks } of holes)
      for (const block of blocks) block.setAttribute('aria-pressed', String(block.textContent === field.value));
  }
  function clear() {
    result.textContent = '';
    delete result.dataset.fair;
    mistakes.replaceChildren();
    decisions.replaceChildren();
    for (const { field, problem } of holes) {
      problem.textContent = '';
      field.removeAttribute('aria-invalid');
    }
  }
  function keepTexts() {
    noteRule(title, { texts: textsNow(), isChecked: false });
    clear();
    mark();
  }

  function check() {
    clear();
    let graded;
    try {
      graded = grade(textsNow());
    } catch (error) {
      if (error.hole === undefined) throw error;
      const { field, problem } = holes[error.hole];
      problem.textContent = error.message;
      field.setAttribute('aria-invalid', 'true');
      return field;
    }
    const isRight = graded.verdict === 'right',
      solved = readRules()[title]?.solved ?? (isRight ? textsNow() : undefined);
    noteRule(title, { texts: textsNow(), isChecked: true, isRight, solved });
    result.textContent = graded.words;
    Object.assign(result.dataset, { fair: graded.verdict !== 'wrong', verdict: graded.verdict });
    mistakes.replaceChildren(...graded.mistakes);
    decisions.replaceChildren(
      make('li', 'sl-dim', graded.title),
      ...graded.decisions.map(({ isRight, words }) =>
        make('li', '', [make('span', 'sl-rule-mark', isRight ? '✓ ' : '✗ '), words], { 'data-right': isRight }),
      ),
    );
    return null;
  }
  function press() {
    const wrongField = check();
    if (wrongField) return wrongField.focus();
    touched();
    (mistakes.children.length ? mistakes : result).scrollIntoView({ block: 'nearest' });
  }

  const box = figure(
    title,
    mark,
    () => {},
    ...holes.map(({ row }) => row),
    make('div', 'sl-buttons', [makeButton('Check it', press, 'sl-button sl-primary')]),
    result,
    mistakes,
    decisions,
  );
  box.addEventListener('input', keepTexts);
  box.addEventListener('keydown', event => {
    if (event.key === 'Enter' && event.target instanceof HTMLInputElement) press();
  });
  if (stored.isChecked === true) check();
  return box;
}
