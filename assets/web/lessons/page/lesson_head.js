// Draws what stays the same through the steps of a lesson: the title, the notes for teachers, the links, the live button.
/** @import { LessonPage } from './lesson_page.d.ts' */
import { makeFind } from '../../lib/dom.js';
import { TOOLS } from '../tools/tools.js';

// ``isStored``: the site has no server, so its sheets are files and nothing runs live.
export function drawLessonHead(element, page, markup, isStored) {
  const find = makeFind(element);
  find('#sl-lesson-title').textContent = `${page.number}. ${page.title}`;
  find('.sl-lesson-teacher').hidden = !page.teacher.length; // a site without solutions has no notes
  find('.sl-lesson-teacher > div').replaceChildren(...page.teacher.map(markup.block));
  for (const folded of element.querySelectorAll('.sl-lesson-page details')) folded.open = false;
  const sheetOf = kind =>
    isStored
      ? `sheets/${kind}-${page.number}.html`
      : new URL(`speclens/lessons/${page.number}/${kind}`, document.baseURI);
  for (const link of element.querySelectorAll('[data-sheet]')) link.href = sheetOf(link.dataset.sheet);
  /** @type {HTMLAnchorElement} */
  const projector = find('[data-projector]');
  projector.href = `?present=1#lesson-${page.slug}`;
  find('[data-lesson="live"]').hidden = !page.live || isStored;
}

/** Draws the box for the learner's own text when it is opened, because the tokenizer takes a moment.
 * @param {HTMLElement} element @param {() => LessonPage | null} openPage */
export function listenForOwnText(element, markup, openPage) {
  /** @type {HTMLDetailsElement} */
  const box = element.querySelector('.sl-lesson-own');
  box.addEventListener('toggle', () => {
    if (!openPage()) return;
    const { note, ...settings } = openPage().own;
    box.lastElementChild.replaceChildren(
      ...(box.open ? [markup.line('p', note), TOOLS.own_text(settings, () => {})] : []),
    );
  });
}
