// Draws the list of lessons, with the learner's progress in each.
import { make } from '../../lib/dom.js';

export function drawLessonList(box, lessons, progress) {
  const parts = [...new Set(lessons.map(lesson => lesson.part))];
  box.replaceChildren(
    ...parts.flatMap((part, index) => [
      make('h3', 'sl-lesson-part', part, { id: `sl-lesson-part-${index}` }),
      make(
        'ol',
        'sl-lesson-cards',
        lessons.filter(lesson => lesson.part === part).map(lesson => card(lesson, progress.read(lesson.slug))),
        { 'aria-labelledby': `sl-lesson-part-${index}` },
      ),
    ]),
  );
}

function card(lesson, { at, done, over }) {
  let state = `${lesson.minutes} minutes`;
  if (over) state = '✓ done';
  else if (done.length || at) state = `step ${Math.min(at + 1, lesson.steps + 1)} of ${lesson.steps + 1}`;
  const content = [
    make('span', 'sl-lesson-number', String(lesson.number)),
    make('strong', '', lesson.title),
    make('span', 'sl-lesson-summary', lesson.summary),
    make('span', 'sl-lesson-state', state),
  ];
  const link = make('a', 'sl-lesson-card', content, {
    href: `#lesson-${lesson.slug}`,
    ...(over && { 'data-over': '' }),
  });
  return make('li', '', [link]);
}

// Draws the links to the pages for teachers. ``box``: they come first in it; ``papers``: their titles by their addresses.
export function drawPapers(box, papers) {
  const links = Object.entries(papers).map(([address, title]) =>
    make('a', 'sl-button', title, { href: new URL(address, document.baseURI), target: '_blank' }),
  );
  box.prepend(...links);
}
