// Prints a lesson as the teacher's sheet: all steps with their answers and the talking points, black on white.

function wholeLesson(markup, page) {
  const sheet = make('div', 'sl-lesson-sheet'), all = make('ul');
  all.append(...page.outcomes.map(line => markup.line('li', line)));
  sheet.append(make('p', '', `${page.minutes} minutes. Afterwards you can say:`), all);
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
  const box = make('div', 'sl-sheet-question'), list = make('ul');
  list.append(...options.map(option => {
    const item = markup.line('li', option.text);
    if (option.right) item.append(' ✓');
    return item;
  }));
  box.append(markup.line('p', text, 'sl-question-text'), list);
  return box;
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
