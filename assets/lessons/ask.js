// Questions. Of a prediction the first guess counts, and then the machine answers; a quiz may be tried again.

function optionList(prose, options, { chosen }) {
  const list = make('div', 'sl-options');
  options.forEach((option, index) => {
    const button = make('button', 'sl-option');
    button.type = 'button';
    button.append(make('kbd', '', String(index + 1)), prose.line('span', option.text));
    button.addEventListener('click', () => { if (button.getAttribute('aria-disabled') !== 'true') chosen(option, button); });
    list.append(button);
  });
  return list;
}

function settle(button, right) {
  button.dataset.right = right;
  button.append(make('span', 'sl-option-mark', right ? '✓ right' : '✗ no'));
}

// 0.125 as it is, though two digits do for most.
const exact = x => Math.abs(1000 * x - Math.round(1000 * x)) < 1e-6 ? String(Number(x.toFixed(3))) : short(x);

// ``answered(right)`` is called once, when the guess has been made.
function makePrediction(prose, ask, answered) {
  const box = make('div', 'sl-question'), reply = make('div', 'sl-reply');
  reply.setAttribute('role', 'status');
  box.append(make('p', 'sl-question-kind', 'Predict, then look'), prose.line('p', ask.text, 'sl-question-text'));

  function reveal(right, words, why = []) {
    reply.dataset.right = right;
    reply.append(make('strong', '', words));
    if (why.length) reply.append(prose.line('p', why));
    reply.append(prose.line('p', ask.explain));
    answered(right);
  }

  if (ask.kind === 'number') {
    const form = make('form', 'sl-guess'), field = make('input'), go = make('button', 'sl-button', 'Reveal');
    field.type = 'number';
    field.step = 'any';
    field.required = true;
    field.setAttribute('aria-label', 'Your guess');
    go.type = 'submit';
    form.append(field, make('span', '', ask.unit), go);
    form.addEventListener('submit', event => {
      event.preventDefault();
      if (go.disabled || field.value === '') return;
      go.disabled = field.readOnly = true;
      const right = Math.abs(Number(field.value) - ask.answer) <= ask.within;
      const found = `${exact(ask.answer)}${ask.unit ? ` ${ask.unit}` : ''}`;
      reveal(right, right ? `Close: it is ${found}.` : `It is ${found}.`);
    });
    box.append(form);
  } else {
    const list = optionList(prose, ask.options, {
      chosen(option, button) {
        for (const each of list.children) each.setAttribute('aria-disabled', 'true');
        settle(button, option.right);
        if (!option.right) settle(list.children[ask.options.findIndex(each => each.right)], true);
        reveal(option.right, option.right ? 'You saw it coming.' : 'The machine says otherwise.', option.why);
      },
    });
    box.append(list);
  }
  box.append(reply);
  return box;
}

// ``answered(index)`` is called for each question once it has been got right.
function makeQuiz(prose, questions, answered) {
  const box = make('div', 'sl-quiz');
  questions.forEach((question, index) => {
    const part = make('div', 'sl-question'), reply = make('p', 'sl-reply');
    reply.setAttribute('role', 'status');
    const list = optionList(prose, question.options, {
      chosen(option, button) {
        settle(button, option.right);
        button.setAttribute('aria-disabled', 'true');
        reply.dataset.right = option.right;
        reply.replaceChildren(make('strong', '', option.right ? 'Right. ' : 'Not this one. '), prose.line('span', option.why));
        if (!option.right) return;
        for (const each of list.children) each.setAttribute('aria-disabled', 'true');
        answered(index);
      },
    });
    part.append(prose.line('p', question.text, 'sl-question-text'), list, reply);
    box.append(part);
  });
  return box;
}
