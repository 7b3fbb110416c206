// Asks for the verdict on one case after the other, and counts the right answers.
import { make, makeButton } from '../../lib/dom.js';
import { figure, makeNote, makeResult } from './widgets.js';

// ``noun``: what a case is called; ``verdicts``: the words of each by name; ``verdictOf(case)``: the name of the
// right one; ``draw(case)``: fills ``parts``, and may return a sentence for the line above them; ``reply(case,
// chosen)``: the words after an answer.
export function makeCases(title, { cases, noun, verdicts, verdictOf, parts, draw, reply, note }, touched) {
  const where = makeNote(),
    result = makeResult();
  const answers = Object.entries(verdicts).map(([name, words]) =>
    makeButton(words, () => answer(name), 'sl-button', { 'data-cause': name }),
  );
  const next = makeButton('', () => {
    at = (at + 1) % cases.length;
    if (!at) right = 0;
    show();
  });
  let at = 0,
    right = 0,
    isOver = false;

  function show() {
    const more = draw(cases[at]);
    isOver = false;
    next.hidden = true;
    answers.forEach(each => delete each.dataset.right);
    result.textContent = '';
    where.textContent = `${noun[0].toUpperCase()}${noun.slice(1)} ${at + 1} of ${cases.length}.${more ? ` ${more}` : ''}`;
  }
  function answer(chosen) {
    if (isOver) return;
    const verdict = verdictOf(cases[at]),
      isLast = at === cases.length - 1;
    isOver = true;
    right += Number(chosen === verdict);
    for (const { dataset } of answers)
      if ([verdict, chosen].includes(dataset.cause)) dataset.right = String(dataset.cause === verdict);
    result.textContent = reply(cases[at], chosen);
    next.textContent = isLast ? 'Once more' : `Next ${noun}`;
    next.hidden = false;
    if (isLast) where.textContent = `You got ${right} of ${cases.length} right.`;
    touched();
  }
  return figure(
    title,
    show,
    () => {},
    where,
    ...parts,
    make('div', 'sl-buttons', answers),
    result,
    make('div', 'sl-buttons', [next]),
    makeNote(note),
  );
}

// The words of each verdict by its name, of a table that says more of each.
export const namesOf = table => Object.fromEntries(Object.entries(table).map(([key, { name }]) => [key, name]));
