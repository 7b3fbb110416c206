// Draws what stays the same through the steps of a lesson: the title, the notes for teachers, the links, the live button.
import { makeFind } from '../lib/dom.js';

// ``isStored``: the site has no server, so its sheets are files and nothing runs live.
export function drawLessonHead(element, page, markup, isStored) {
  const find = makeFind(element);
  find('#sl-lesson-title').textContent = `${page.number}. ${page.title}`;
  find('.sl-lesson-teacher > div').replaceChildren(...page.teacher.map(markup.block));
  find('.sl-lesson-teacher').open = find('.sl-lesson-own').open = false;
  const sheetOf = kind =>
    isStored
      ? `sheets/${kind}-${page.number}.html`
      : new URL(`speclens/lessons/${page.number}/${kind}`, document.baseURI);
  for (const link of element.querySelectorAll('[data-sheet]')) link.href = sheetOf(link.dataset.sheet);
  const projector = find('[data-projector]');
  projector.hidden = isStored;
  projector.href = `?present=1#lesson-${page.slug}`;
  find('[data-lesson="live"]').hidden = !page.live || isStored;
}
