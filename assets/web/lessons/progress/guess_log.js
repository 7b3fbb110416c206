// Keeps what a learner guessed in the lessons and the rules that they wrote, in this browser alone, for the report of
// one's own work.
//
//   speclens-guesses: { LESSON: { asks: { STEP: { question, guess, isRight } }, quiz: { first, of } } }
//   speclens-rules: { TITLE: { texts, isChecked, isRight, solved } }      solved: the first texts that were right
import { readObject, storeObject } from '../../lib/storage.js';

const KEY = 'speclens-guesses',
  RULES = 'speclens-rules';

export const readGuesses = () => readObject(KEY);
export const readRules = () => readObject(RULES);
export const noteRule = (title, rule) =>
  storeObject(RULES, { ...readRules(), [title]: { ...readRules()[title], ...rule } });
export function forgetGuesses() {
  storeObject(KEY, {});
  storeObject(RULES, {});
}

const lessonOf = (stored, lesson) => ({ asks: {}, quiz: null, ...stored[lesson] });

// The first guess at a question counts. ``entry``: the question, the guess and whether it was right.
export function noteGuess(lesson, step, entry) {
  const stored = readGuesses(),
    now = lessonOf(stored, lesson);
  if (now.asks[step]) return;
  storeObject(KEY, { ...stored, [lesson]: { ...now, asks: { ...now.asks, [step]: entry } } });
}

// ``first``: how many of ``of`` questions were right at the first try. The first time counts here, too.
export function noteQuiz(lesson, first, of) {
  const stored = readGuesses(),
    now = lessonOf(stored, lesson);
  if (!now.quiz) storeObject(KEY, { ...stored, [lesson]: { ...now, quiz: { first, of } } });
}
