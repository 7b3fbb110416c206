// Stores the learner's progress in this browser alone. Lessons also work where the browser stores nothing.
import { readObject, storeObject } from '../../lib/storage.js';

export function makeProgress(key = 'speclens-lessons') {
  let stored = readObject(key);
  const save = () => storeObject(key, stored);
  const read = slug => {
    const lesson = stored[slug];
    return {
      at: Number(lesson?.at) || 0,
      done: Array.isArray(lesson?.done) ? lesson.done : [],
      over: lesson?.over === true,
    };
  };

  return {
    read,
    isEmpty: () => !Object.keys(stored).length,
    at(slug, step) {
      stored[slug] = { ...read(slug), at: step };
      save();
    },
    done(slug, step) {
      const now = read(slug);
      if (!now.done.includes(step)) {
        stored[slug] = { ...now, done: [...now.done, step] };
        save();
      }
    },
    over(slug) {
      stored[slug] = { ...read(slug), over: true };
      save();
    },
    forget() {
      stored = {};
      save();
    },
  };
}
