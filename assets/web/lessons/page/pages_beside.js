// Opens the pages beside the lessons: the list with the pages before it, the exercises, and the page of the rule.
/** @import { LessonsValue } from './lesson_page.d.ts' */
import { make, makeFind } from '../../lib/dom.js';
import { mountPractice } from '../practice/practice.js';
import { forgetGuesses } from '../progress/guess_log.js';
import { mountCollect } from '../report/collect_reports.js';
import { mountReport } from '../report/report.js';
import { mountRulePage } from '../rule/rule_page.js';
import { drawLessonList, drawPapers } from './lesson_list.js';
import { mountMinute } from './minute.js';

/** ``leave()`` is called before one of them is opened, and ``opened()`` after it.
 * @param {HTMLElement} element
 * @param {{ value: LessonsValue, markup: any, progress: any, leave: () => void, opened: () => void }} context */
export function makePagesBeside(element, { value, markup, progress, leave, opened }) {
  const find = makeFind(element),
    frame = find('.sl-lessons'),
    sheet = value.pages ? 'practice.html' : new URL('speclens/practice', document.baseURI);
  const idea = mountMinute(find('.sl-minute'), value.minute, markup, value.playground),
    exercises = mountPractice(find('.sl-practice'), value.practice, markup, sheet),
    ownRule = mountRulePage(find('.sl-rule-page'), value.rule);
  const hashes = { list: () => 'lessons', practice: exercises.hash, rule: () => 'rule' };
  drawPapers(find('.sl-lesson-papers > div'), value.papers ?? {});
  if (value.solutions) mountCollect(find('.sl-collect'));
  else find('.sl-lesson-papers').remove();
  mountReport(find('.sl-own-report'), value.lessons, value.practice.kinds, progress, !value.pages);

  // A lesson may have the fields of the page of the rule, so none stay there.
  function hide() {
    idea.hide();
    ownRule.hide();
  }
  function open(name) {
    leave();
    hide();
    frame.dataset.open = name;
  }
  const drawList = () => drawLessonList(find('.sl-lesson-parts'), value.lessons, progress);

  return {
    hide,
    hash: () => hashes[frame.dataset.open](),
    list() {
      open('list');
      idea.show(progress.isEmpty());
      drawList();
      opened();
      scrollTo(0, 0);
    },
    /** @param {number} seed @param {string} [name] */
    practise(seed, name) {
      open('practice');
      exercises.show(seed, name);
      opened();
      exercises.focus();
      find('.sl-practice').scrollIntoView();
    },
    writeRule() {
      open('rule');
      ownRule.show();
      opened();
      find('#sl-rule-title').focus({ preventScroll: true });
      find('.sl-rule-page').scrollIntoView();
    },
    // The exercises that a lesson teaches, as links for its end.
    waysFrom(slug) {
      const links = exercises.links(slug);
      return links.length ? [make('p', 'sl-buttons sl-lesson-practise', ['Exercises to this lesson: ', ...links])] : [];
    },
    forget() {
      progress.forget();
      forgetGuesses();
      exercises.forget();
      drawList();
    },
  };
}
