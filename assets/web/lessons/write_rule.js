// Lets learners write the rule themselves: three holes, filled with blocks or with an expression, and graded.

import { make, makeButton } from '../lib/dom.js';
import { readObject, storeObject } from '../lib/storage.js';
import { gradeRule, HOLES, ROUNDS } from './rule_grade.js';
import { figure, makeNote, makeResult } from './widgets.js';

const KEY = 'speclens-own-rule';
const BLOCKS = [
  ['p', 'q / p', 'min(1, p / q)', 'p > q', '1'],
  ['q', 'p', 'abs(p − q)', 'p − q', 'max(p − q, 0)'],
  ['max(p − q, 0)', 'before', 'q', 'p'],
];
const NOTES = [
  'Here p and q are the draft’s own. With u in it, as in u * q < p, it’s the whole condition. “later” is the draft’s p one row later.',
  'Here p and q are rows, with a number for each word. They are scaled to 1 before the draw.',
  'p: the target’s row after the last draft. q and “before”: the drafter’s row and the target’s, one place earlier.',
];

const percent = share => `${Math.round(100 * share)} %`;

function sentenceOf({ verdict, most, alpha, rightAlpha }) {
  const [all, seen, wanted] = [ROUNDS, most.seen, most.wanted].map(count => count.toLocaleString('en'));
  const rounds = `In ${all} rounds of another pair, “${most.text}” came ${seen} times; the target alone would write it about ${wanted} times.`;
  const shares = `It accepts ${percent(alpha)} of the tested drafts, the right one ${percent(rightAlpha)}.`;
  if (verdict === 'wrong') return `This rule changes the odds of the text. ${rounds} ${shares}`;
  const chance = 'No text differs more, and that’s chance: exactly, none differs.';
  if (verdict === 'right') return `You’ve written the rule. ${rounds} ${chance}`;
  return `This is lossless, but it isn’t the rule. ${rounds} ${chance} ${shares}`;
}

// ``exercise``: as `gradeRule` takes it.
export function makeWriteRule({ exercise }, touched) {
  const stored = readObject(KEY);
  const result = makeResult(),
    named = make('div', 'sl-rule-named'),
    decisions = make('ul', 'sl-rule-decisions');
  const holes = HOLES.map(({ label }, hole) => {
    const field = make('input', '', '', {
      type: 'text',
      maxlength: 80,
      spellcheck: 'false',
      autocapitalize: 'off',
      autocomplete: 'off',
      'aria-label': label,
      'aria-describedby': `sl-rule-note-${hole} sl-rule-problem-${hole}`,
    });
    field.value = typeof stored.texts?.[hole] === 'string' ? stored.texts[hole] : '';
    const problem = make('p', 'sl-rule-problem', '', { id: `sl-rule-problem-${hole}`, role: 'alert' });
    const blocks = BLOCKS[hole].map(text =>
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
      makeNote(NOTES[hole], { id: `sl-rule-note-${hole}` }),
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
    named.replaceChildren();
    decisions.replaceChildren();
    for (const { field, problem } of holes) {
      problem.textContent = '';
      field.removeAttribute('aria-invalid');
    }
  }
  function keepTexts() {
    storeObject(KEY, { texts: textsNow() });
    clear();
    mark();
  }

  function check() {
    clear();
    let grade;
    try {
      grade = gradeRule(exercise, textsNow());
    } catch (error) {
      if (error.hole === undefined) throw error;
      const { field, problem } = holes[error.hole];
      problem.textContent = error.message;
      field.setAttribute('aria-invalid', 'true');
      return field;
    }
    storeObject(KEY, { texts: textsNow(), isChecked: true });
    result.textContent = sentenceOf(grade);
    Object.assign(result.dataset, { fair: grade.verdict !== 'wrong', verdict: grade.verdict });
    if (grade.verdict === 'wrong')
      named.replaceChildren(
        ...grade.mistakes.map(({ hole, known }) => {
          if (!known) return make('p', '', `${HOLES[hole].label} …: this is wrong, in a way that has no name here.`);
          const says = [known.words, known.resembles].filter(Boolean).join(' ');
          return make('p', '', [
            `${HOLES[hole].label} …: the known mistake `,
            make('code', '', known.name),
            `. ${says}`,
          ]);
        }),
      );
    decisions.replaceChildren(
      make('li', 'sl-dim', 'Each decision in this lesson’s run:'),
      ...grade.decisions.map(({ isRight, words }) =>
        make('li', '', [make('span', 'sl-rule-mark', isRight ? '✓ ' : '✗ '), words], { 'data-right': isRight }),
      ),
    );
    return null;
  }
  function press() {
    const wrongField = check();
    if (wrongField) wrongField.focus();
    else touched();
  }

  const box = figure(
    'Three holes',
    mark,
    () => {},
    ...holes.map(({ row }) => row),
    make('div', 'sl-buttons', [makeButton('Check it', press, 'sl-button sl-primary')]),
    result,
    named,
    decisions,
  );
  box.addEventListener('input', keepTexts);
  box.addEventListener('keydown', event => {
    if (event.key === 'Enter' && event.target instanceof HTMLInputElement) press();
  });
  if (stored.isChecked === true) check();
  return box;
}
