// Draws questions. A prediction has one guess, then shows the measured answer; before a class, votes are
// counted first; a quiz may be tried again.

import { make, makeButton, setText } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { isClass, short } from '../widgets/widgets.js';

function optionList(markup, options, chosen) {
  return make(
    'div',
    'sl-options',
    options.map((option, index) => {
      const content = [make('kbd', '', String(index + 1)), markup.line('span', option.text)];
      const button = makeButton(
        content,
        () => {
          if (button.getAttribute('aria-disabled') !== 'true') chosen(option, button);
        },
        'sl-option',
      );
      return button;
    }),
  );
}

function settle(button, right) {
  button.dataset.right = right;
  button.append(make('span', 'sl-option-mark', right ? '✓ right' : '✗ not this one'));
}

// Three decimals where they are exact (0.125), else two.
const exact = x => (Math.abs(1000 * x - Math.round(1000 * x)) < 1e-6 ? String(Number(x.toFixed(3))) : short(x));

// "0.75", "0,75" and, for a ``share``, "75 %" and "75" are one number; NaN for any other text.
function guessOf(text, share) {
  const words = text.replace(',', '.').replace(/\s/g, ''),
    number = words ? Number(words.replace(/%$/, '')) : NaN;
  return share && (words.endsWith('%') || number > 1) ? number / 100 : number;
}

// A line's words without its marks.
export const plainText = line => line.map(([, text]) => text).join('');

// ``answered(right, guess)`` is called once, after the guess, which is a text; a class that votes has none.
export function makePrediction(markup, ask, answered) {
  const reply = make('div', 'sl-reply', '', { role: 'status' });
  const head = [make('p', 'sl-question-kind', 'Predict, then look'), markup.line('p', ask.text, 'sl-question-text')];

  function reveal(right, words, why = [], guess = '') {
    reply.dataset.right = right;
    reply.append(make('strong', '', words));
    if (why.length) reply.append(markup.line('p', why));
    reply.append(markup.line('p', ask.explain));
    answered(right, guess);
  }

  if (ask.kind === 'number') {
    const field = make('input', '', '', {
      inputmode: 'decimal',
      required: '',
      autocomplete: 'off',
      'aria-label': 'Your guess',
    });
    const go = make('button', 'sl-button', 'Reveal', { type: 'submit' });
    const form = make('form', 'sl-guess', [field, make('span', '', ask.unit), go]);
    form.addEventListener('submit', event => {
      event.preventDefault();
      const guess = guessOf(field.value, ask.share),
        answer = `${exact(ask.answer)}${ask.unit ? ` ${ask.unit}` : ''}`;
      if (Number.isNaN(guess)) setText(reply, 'Type a number.');
      if (go.disabled || Number.isNaN(guess)) return;
      go.disabled = field.readOnly = true;
      reply.replaceChildren();
      const right = Math.abs(guess - ask.answer) <= ask.within,
        said = right ? 'Close: you said' : 'You said';
      reveal(
        right,
        exact(guess) === exact(ask.answer) ? `Right: it is ${answer}.` : `${said} ${exact(guess)}, it is ${answer}.`,
        right ? [] : guess < ask.answer ? ask.low : ask.high,
        field.value,
      );
    });
    return make('div', 'sl-question', [...head, form, reply]);
  }
  if (ask.vote && isClass()) return makeVote(markup, ask, head, reply, reveal);
  const list = optionList(markup, ask.options, (option, button) => {
    for (const each of list.children) each.setAttribute('aria-disabled', 'true');
    settle(button, option.right);
    if (!option.right) settle(list.children[ask.options.findIndex(each => each.right)], true);
    reveal(option.right, option.right ? 'You saw it coming.' : 'Not quite.', option.why, plainText(option.text));
  });
  return make('div', 'sl-question', [...head, list, reply]);
}

// Gives the answer again that the learner gave before, as after a reload. ``place`` holds the prediction of ``ask``.
export function repeatGuess(place, ask, guess) {
  const question = place.querySelector('.sl-question'),
    field = question?.querySelector('.sl-guess input');
  if (!question || !guess || (ask.vote && isClass())) return;
  if (field) {
    field.value = guess;
    field.form.requestSubmit();
    return;
  }
  const at = ask.options.findIndex(option => plainText(option.text) === guess);
  question.querySelectorAll('.sl-option')[at]?.click();
}

// The hands counted so far, by question. They live on this page alone, for as long as it is open: otherwise a wrong key
// that leaves the step would lose them.
const VOTES = new WeakMap();

// A click on an option, or its number key, counts one hand.
function makeVote(markup, ask, head, reply, reveal) {
  const votes = VOTES.get(ask) ?? ask.options.map(() => 0),
    shown = ask.options.map(() => make('span', 'sl-vote'));
  VOTES.set(ask, votes);
  const list = optionList(markup, ask.options, option => {
    votes[ask.options.indexOf(option)]++;
    count();
  });
  [...list.children].forEach((button, i) => button.append(shown[i]));
  const buttons = make('div', 'sl-buttons', [
    makeButton('Show the answer', answer),
    makeButton('Clear the votes', () => {
      votes.fill(0);
      count();
    }),
  ]);

  function count() {
    votes.forEach((hands, i) => setText(shown[i], hands ? quantity(hands, 'hand') : ''));
  }
  function answer() {
    const all = votes.reduce((a, b) => a + b, 0),
      right = ask.options.findIndex(option => option.right);
    [...list.children].forEach((button, i) => {
      button.setAttribute('aria-disabled', 'true');
      if (i === right) settle(button, true);
    });
    buttons.remove();
    reveal(
      true,
      all ? `${votes[right]} of ${quantity(all, 'hand')} had it.` : 'No votes? Here’s the answer anyway.',
      ask.options[right].why,
    );
    reply.append(
      ...ask.options
        .filter((option, i) => i !== right && votes[i])
        .map(({ text, why }) => markup.line('p', [['text', '“'], ...text, ['text', '”? '], ...why])),
    );
  }
  count();
  return make('div', 'sl-question', [make('p', 'sl-question-kind', 'Vote, then look'), head[1], list, buttons, reply]);
}

// ``answered(index, first)`` is called once for each question, after its right answer; ``first``: at the first try.
export function makeQuiz(markup, questions, answered) {
  return make(
    'div',
    'sl-quiz',
    questions.map((question, index) => {
      const reply = make('p', 'sl-reply', '', { role: 'status' });
      let tries = 0;
      const list = optionList(markup, question.options, (option, button) => {
        tries++;
        settle(button, option.right);
        button.setAttribute('aria-disabled', 'true');
        reply.dataset.right = option.right;
        reply.replaceChildren(
          make('strong', '', option.right ? 'Right. ' : 'Not this one. '),
          markup.line('span', option.why),
        );
        if (!option.right) return;
        for (const each of list.children) each.setAttribute('aria-disabled', 'true');
        answered(index, tries === 1);
      });
      return make('div', 'sl-question', [markup.line('p', question.text, 'sl-question-text'), list, reply]);
    }),
  );
}
