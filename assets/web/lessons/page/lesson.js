// Runs the Lessons tab: the list, the steps of the open lesson, its keys, its address and the progress.
/** @import { Part } from '../../lib/part.d.ts' */
/** @import { Lab, LessonPage, LessonsValue, Step } from './lesson_page.d.ts' */
import { closest, makeButton, makeFind, setText } from '../../lib/dom.js';
import { pressVerb } from '../../lib/format.js';
import { readGuesses } from '../progress/guess_log.js';
import { makeProgress } from '../progress/lesson_progress.js';
import { makeAddress } from './address.js';
import { makeTypeFitter } from './fit_type.js';
import { labButton, labNote } from './lab_button.js';
import { drawLessonHead, listenForOwnText } from './lesson_head.js';
import { listenForKeys } from './lesson_keys.js';
import { drawLessonNav } from './lesson_nav.js';
import { makeLessonPages } from './lesson_pages.js';
import { makeLessonPlayer } from './lesson_player.js';
import { quizNodes, stepNodes, turnSentence } from './lesson_step.js';
import { makeMarkup } from './markup.js';
import { makePagesBeside } from './pages_beside.js';
import { makePlaygroundHint } from './playground_hint.js';
import { repeatGuess } from './questions.js';
import { makeToolPlace } from './tool_place.js';

const FIXED = 'This page’s link keeps its settings, so the lesson cannot fill them in. Go on to the next step.';

/** @param {Part} part */
export function mount({ element, props, trigger }) {
  const find = makeFind(element);
  /** @type {LessonsValue} */
  const value = JSON.parse(props.value || '{"lessons":[]}'),
    { lessons, pages: stored } = value;
  const frame = find('.sl-lessons'),
    body = find('.sl-lesson-body'),
    turn = find('.sl-lesson-turn'),
    problem = find('.sl-lesson-problem'),
    nextButton = find('[data-lesson="next"]');
  const markup = makeMarkup(find('.sl-define'));
  const progress = makeProgress();
  const stage = makeLessonPlayer(find('.sl-lesson-stage'), find('.sl-lesson-caption'));
  const hintBar = makePlaygroundHint({ back: openTab });
  const load = makeLessonPages(stored);
  const fitType = makeTypeFitter(element);
  const placeTool = makeToolPlace(frame, () => Boolean(page?.steps[at]?.points?.token));
  /** @type {LessonPage | null} null while the list is shown */
  let page = null;
  let at = 0; // the step, of which the last is the quiz
  let isComplete = false;
  markup.listen(frame);

  function openTab() {
    document.getElementById('lessons-tab-button')?.click();
    address.writeCurrent();
    requestAnimationFrame(settleView); // the playground may have been scrolled far down
  }
  /** @param {string} text */
  const say = text => setText(turn, text);

  // ── the list and the exercises ──
  const beside = makePagesBeside(element, { value, markup, progress, leave, opened: () => address.writeCurrent() });
  const { list, practise, writeRule } = beside;

  function leave() {
    page = opening = null; // one that is still being fetched is not opened any more
    stage.clearGlow();
  }

  // ── opening one ──
  /** @type {string | null} the one asked for last */
  let opening = null;
  /** @param {string} name @param {number} [text] of the guessing game */
  async function open(name, text) {
    opening = name;
    problem.textContent = '';
    const number = lessons.find(each => each.slug === name)?.number;
    const state = find(`[href="#lesson-${name}"] .sl-lesson-state`);
    const slow = setTimeout(() => {
      if (state) state.textContent = 'opening…';
    }, 300); // the first lesson with a toy model loads torch
    try {
      if (number === undefined) throw new Error('404');
      const loaded = await load(number);
      if (opening !== name) return; // another one was opened meanwhile
      page = loaded;
    } catch (error) {
      problem.textContent =
        error.message === '404'
          ? `There is no lesson ${name}.`
          : 'The lesson could not be fetched; the server may be gone. Try again.';
      return list();
    } finally {
      clearTimeout(slow);
    }
    frame.dataset.open = 'lesson';
    beside.hide();
    markup.use({ ...page.words, ...page.sources });
    drawLessonHead(element, page, markup, Boolean(stored));
    address.writeCurrent();
    const { at: left, over } = progress.read(page.slug);
    const game = text ? page.steps.findIndex(step => step.tool === 'guess_words') : -1;
    if (game >= 0) page.steps[game].settings.text = text;
    go(game >= 0 ? game : over ? 0 : left); // a finished lesson begins again
    find('#sl-lesson-title').focus({ preventScroll: true });
    settleView();
  }

  // ── one step; the quiz comes after the last ──
  const last = () => page.steps.length;
  const nextLesson = () => lessons.find(each => each.number === page.number + 1);
  const hasNext = () => Boolean(nextLesson());
  /** @param {number} to */
  function go(to) {
    at = Math.max(0, Math.min(to, last()));
    progress.at(page.slug, at);
    isComplete = false;
    hintBar.hide();
    stage.clearGlow();
    stage.hideNumbers(false);
    stage.darken(false);
    say('');
    body.replaceChildren(
      ...(at === last()
        ? quizNodes(page, markup, hasNext(), completeLesson)
        : stepNodes(page, at, markup, { labWay, done: completeStep, answered: showSolution })),
    );
    if (at === last()) body.append(...beside.waysFrom(page.slug));
    placeTool();
    if (at < last()) begin(page.steps[at]);
    else showRun(page.steps.at(-1));
    drawNav();
    fitType(true);
    const { done, over } = progress.read(page.slug);
    if (done.includes(at) && !over) repeatGuess(body, page.steps[at]?.ask, readGuesses()[page.slug]?.asks[at]?.guess);
  }
  /** @param {Step} step */
  const showRun = ({ run, at: place }) => stage.show(run, page.runs[run], place);

  /** @param {Lab} lab */
  function labWay(lab) {
    if (stored) return labNote(lab);
    return labButton(lab, () => {
      completeStep('');
      hintBar.beside(lab.hint);
    });
  }

  /** @param {Step} content */
  function begin(content) {
    showRun(content);
    stage.darken(Boolean(content.dark));
    stage.hideNumbers(Boolean(content.ask)); // otherwise they would answer the question beside them
    const isFixed = content.live && !stored && getComputedStyle(find('[data-lesson="live"]')).display === 'none';
    const task = isFixed ? FIXED : turnSentence(content, Boolean(stored));
    say(task);
    isComplete = isFixed || (!task && (!content.points || content.live || Boolean(content.lab)));
    if (!content.ask) point(content);
  }

  /** Makes the token of the step glow until it is locked. @param {Step} content */
  function point(content) {
    if (!content.points?.token) return;
    stage.glow(content.points.token, () => completeStep(''));
    if (content.ask || content.tool) return;
    say(`Your turn: ${pressVerb} the glowing token. `);
    turn.append(makeButton('Show it to me', stage.press));
  }

  /** @param {string} words */
  function completeStep(words) {
    // Otherwise the key N would be typed into the field.
    if (document.activeElement?.closest('.sl-guess')) nextButton.focus({ preventScroll: true });
    progress.done(page.slug, at);
    isComplete = true;
    if (page.steps[at]?.dark === 'done') stage.darken(false);
    say(words);
    drawNav();
  }

  // Scrolls the answer and the Next button into sight; the question stays in sight.
  function showReply() {
    const below = find('.sl-lesson-nav').getBoundingClientRect().bottom + 12 - window.innerHeight;
    const room = body.querySelector('.sl-question').getBoundingClientRect().top - 12;
    if (below > 0 && room > 0) window.scrollBy(0, Math.min(below, room));
    body.querySelector('.sl-reply')?.scrollIntoView({ block: 'nearest' }); // of a presented step, which scrolls itself
  }

  /** Shows the prediction's solution. @param {Step} content */
  function showSolution(content) {
    stage.hideNumbers(false);
    if (content.then) stage.go(content.then);
    point(content);
    completeStep('');
    showReply();
  }

  function completeLesson() {
    progress.over(page.slug);
    completeStep('');
  }

  function drawNav() {
    drawLessonNav(element, { page, at, isComplete, done: progress.read(page.slug).done, hasNext: hasNext(), go });
  }

  // ── input from the learner ──
  function next() {
    if (isComplete) progress.done(page.slug, at);
    if (at < last()) {
      go(at + 1);
      return settleView();
    }
    if (hasNext())
      location.hash = `#lesson-${nextLesson().slug}`; // an entry of its own, from which Back returns
    else list();
  }
  function back() {
    if (at === 0) return;
    go(at - 1);
    settleView();
  }
  // The text and the page's tabs come into sight: on a phone they're far above the buttons.
  const settleView = () => find('.sl-lesson-page').scrollIntoView();

  function live() {
    const step = page.steps[at];
    const stood = at;
    hintBar.show(page.live.hint, step?.live ? step.points?.control : '', () => {
      if (page && at === stood && step?.live) completeStep('');
    });
    address.clear();
    trigger('live', { lesson: page.number });
  }

  const actions = { list, back, next, live, forget: beside.forget };
  element.addEventListener('click', ({ target }) => actions[closest(target, '[data-lesson]')?.dataset.lesson]?.());

  listenForOwnText(element, markup, () => page);
  listenForKeys(element, { isOpen: () => Boolean(page), next, back });

  const address = makeAddress(element, {
    isHere: () => element.isConnected,
    current: () => (page ? `lesson-${page.slug}` : beside.hash()),
    open,
    list,
    practise,
    writeRule,
  });
  if (!address.openNamed()) list();
}
