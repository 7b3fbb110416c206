// Fetches each lesson once, when it is opened. A site without a server has every lesson in ``stored``.

export function makeLessonPages(stored) {
  const pages = new Map(Object.entries(stored ?? {}).map(([number, lesson]) => [Number(number), lesson]));

  // Throws an error with the status of the answer as its message.
  return async function load(number) {
    if (!pages.has(number)) {
      const answer = await fetch(new URL(`speclens/lessons/${number}`, document.baseURI));
      if (!answer.ok) throw new Error(String(answer.status));
      pages.set(number, await answer.json());
    }
    return pages.get(number);
  };
}
