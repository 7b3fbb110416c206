// Makes the contents of one step of a lesson, and the quiz after the last step.
/** @import { LessonPage, Step } from './lesson_page.d.ts' */
import { make } from '../../lib/dom.js';
import { noteGuess, noteQuiz } from '../progress/guess_log.js';
import { TOOLS } from '../tools/tools.js';
import { isClass } from '../widgets/widgets.js';
import { makeSentence } from './drag_numbers.js';
import { makePrediction, makeQuiz, plainText } from './questions.js';

// How long it takes, and what a learner can say afterwards.
const outcomes = (markup, page) => [
  make('p', '', `${page.minutes} minutes. After this you’ll be able to explain:`),
  make(
    'ul',
    '',
    page.outcomes.map(line => markup.line('li', line)),
  ),
];

/** ``labWay(lab)`` makes the way to the lab; ``done(words)`` is called when a tool was used, ``answered(step)`` when
 * the prediction was made.
 * @param {LessonPage} page @param {number} at */
export function stepNodes(page, at, markup, { labWay, done, answered }) {
  const content = page.steps[at];
  const parts = [];
  if (at === 0) parts.push(make('div', 'sl-outcomes', outcomes(markup, page)));
  const blocks = content.blocks.map(markup.block),
    tool = content.tool && TOOLS[content.tool](content.settings, () => done('')),
    // A sentence with numbers to drag would answer the question.
    hidden = content.ask ? blocks.filter(block => block.querySelector('[data-drag]')) : [];
  parts.push(make('h3', '', content.title), ...blocks.filter(block => !hidden.includes(block)));
  if (content.lab) parts.push(labWay(content.lab));
  if (tool) parts.push(make('div', 'sl-tool-place', [tool]));
  const hide = isHidden => {
    for (const block of hidden) block.hidden = isHidden;
  };
  hide(true);
  if (content.sentence) makeSentence(blocks, content.sentence, tool, content.ask ? () => {} : () => done(''));
  if (content.ask) {
    const show = (isRight, guess) => {
      if (guess) noteGuess(page.slug, at, { question: plainText(content.ask.text), guess, isRight });
      hide(false);
      if (tool) tool.dispatchEvent(new Event('answered')); // one that waits for the guess
      answered(content);
    };
    parts.push(makePrediction(markup, content.ask, show), ...hidden);
  }
  return parts;
}

/** What the learner does in a step; '' for one to read, with a token to press, or with nothing live on a site without a
 * server.
 * @param {Step} step @param {boolean} isStored */
export function turnSentence({ ask, tool, live, lab }, isStored) {
  if (ask) return ask.vote && isClass() ? 'Your turn: count the hands.' : 'Your turn: make a guess.';
  if (tool) return 'Your turn: try it and watch what changes.';
  if (isStored) return '';
  if (live) return 'Your turn: “Run it live” fills the playground’s controls. You press Run there.';
  return lab ? 'Your turn: open the experiment. A button at the bottom brings you back here.' : '';
}

/** ``solved()`` is called when every question was answered right. @param {LessonPage} page */
export function quizNodes(page, markup, hasNext, solved) {
  const right = new Set();
  const firsts = new Set();
  const end = make('p', 'sl-lesson-end', '', { role: 'status' });
  const box = makeQuiz(markup, page.quiz, (index, first) => {
    right.add(index);
    if (first) firsts.add(index);
    if (right.size < page.quiz.length) return;
    noteQuiz(page.slug, firsts.size, page.quiz.length);
    const score = `You got ${firsts.size} of ${page.quiz.length} at the first try.`;
    end.textContent = `${score} ${hasNext ? 'That’s it for this lesson. Ready for the next one?' : 'That was the last lesson.'}`;
    solved();
  });
  return [make('h3', '', 'Check yourself'), box, end];
}
