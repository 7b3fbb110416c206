// Stores the answers to the exercises in this browser alone, under the key `speclens-practice`:
//
//   { version: 1,
//     kinds: { NAME: { right, first, tries } },        solved exercises of this kind; at the first try and without a hint;
//                                                      answers in all
//     sets: [{ seed, answers: { NAME: Answer } }] }    the latest sets of numbers, the newest last
//
// The report on a learner's own work reads it, too. A stored object with another version is left out.

import { readObject, storeObject } from '../../lib/storage.js';

const PRACTICE_KEY = 'speclens-practice';
const VERSION = 1;
const MOST_SETS = 20;

// ``text``: the last answer; ``hints``: how many were read; ``end``: 'right', 'shown' (the solution was read before), or ''.
const EMPTY = { text: '', tries: 0, hints: 0, end: '' };

export function readPractice() {
  const { version, kinds, sets } = readObject(PRACTICE_KEY);
  if (version !== VERSION || typeof kinds !== 'object' || !Array.isArray(sets))
    return { version: VERSION, kinds: {}, sets: [] };
  return { version, kinds: { ...kinds }, sets: sets.filter(set => typeof set?.answers === 'object') };
}

export function makePracticeProgress() {
  const stored = readPractice();
  const save = () => storeObject(PRACTICE_KEY, stored);
  const answersOf = seed => stored.sets.find(set => set.seed === seed)?.answers ?? {};
  const read = (seed, name) => ({ ...EMPTY, ...answersOf(seed)[name] });
  const countsOf = name => ({ right: 0, first: 0, tries: 0, ...stored.kinds[name] });

  function change(seed, name, changes) {
    const answers = { ...answersOf(seed), [name]: { ...read(seed, name), ...changes } };
    stored.sets = [...stored.sets.filter(set => set.seed !== seed), { seed, answers }].slice(-MOST_SETS);
    save();
  }

  return {
    read,
    countsOf,
    latest: () => stored.sets.at(-1)?.seed,
    write: (seed, name, text) => change(seed, name, { text }),
    hint: (seed, name) => change(seed, name, { hints: read(seed, name).hints + 1 }),
    show: (seed, name) => change(seed, name, { end: 'shown' }),
    forget() {
      Object.assign(stored, { kinds: {}, sets: [] });
      save();
    },
    // An answer that was checked. An exercise counts once, and not after its solution was read.
    check(seed, name, text, isRight) {
      const { tries, hints, end } = read(seed, name),
        now = countsOf(name);
      if (end) return;
      stored.kinds[name] = {
        right: now.right + Number(isRight),
        first: now.first + Number(isRight && !tries && !hints),
        tries: now.tries + 1,
      };
      change(seed, name, { text, tries: tries + 1, end: isRight ? 'right' : '' });
    },
  };
}
