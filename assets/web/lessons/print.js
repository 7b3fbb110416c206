// Prints a lesson as the teacher's sheet: all steps with their answers and the talking points, black on white.

// How long it takes, and what a learner can say afterwards.
const outcomes = (markup, page) =>
  [make('p', '', `${page.minutes} minutes. Afterwards you can say:`), make('ul', '', page.outcomes.map(line => markup.line('li', line)))];

function wholeLesson(markup, page) {
  const sheet = make('div', 'sl-lesson-sheet', outcomes(markup, page));
  page.steps.forEach((step, index) => {
    sheet.append(make('h3', '', `${index + 1}. ${step.title}`), ...step.blocks.map(markup.block));
    if (step.ask) sheet.append(questionBox(markup, step.ask), markup.line('p', step.ask.explain));
    if (step.lab) sheet.append(make('p', '', `In the lab, ${step.lab.title}: ${step.lab.hint}`));
  });
  if (page.live) sheet.append(make('h3', '', 'Run it live'), make('p', '', page.live.hint));
  sheet.append(make('h3', '', 'What stays'));
  for (const question of page.quiz) sheet.append(questionBox(markup, question), markup.line('p', question.options.find(each => each.right).why));
  return sheet;
}

// A question and its options, the right one marked.
function questionBox(markup, { text, options = [] }) {
  const items = options.map(option => markup.line('li', option.right ? [...option.text, ['text', ' ✓']] : option.text));
  return make('div', 'sl-sheet-question', [markup.line('p', text, 'sl-question-text'), make('ul', '', items)]);
}

// ``lesson()`` returns the open one, or null.
function listenForPrinting(root, markup, lesson) {
  const teacher = root.querySelector('.sl-lesson-teacher');
  let before = null;
  window.addEventListener('beforeprint', () => {
    const page = root.isConnected && root.offsetParent && lesson();
    if (!page || before) return;
    before = { dark: document.body.classList.contains('dark'), open: teacher.open, sheet: wholeLesson(markup, page) };
    document.body.classList.remove('dark');
    teacher.open = true;
    teacher.before(before.sheet);
  });
  window.addEventListener('afterprint', () => {
    if (!before) return;
    document.body.classList.toggle('dark', before.dark);
    teacher.open = before.open;
    before.sheet.remove();
    before = null;
  });
}
