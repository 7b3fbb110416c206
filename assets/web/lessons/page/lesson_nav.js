// Draws where the learner is in a lesson: the count, the Back and Next buttons, and a dot for each step.
import { make, makeButton, makeFind } from '../../lib/dom.js';

// ``at``: the step, of which the last is the quiz; ``done``: the steps that were done; ``go(index)`` goes to a step.
export function drawLessonNav(root, { page, at, isComplete, done, hasNext, go }) {
  const find = makeFind(root);
  const nextButton = find('[data-lesson="next"]'),
    last = page.steps.length;
  find('.sl-lesson-where').textContent =
    at === last ? `Step ${at + 1} of ${at + 1}: questions` : `Step ${at + 1} of ${last + 1}`;
  /** @type {HTMLButtonElement} */
  const backButton = find('[data-lesson="back"]');
  backButton.disabled = at === 0;
  nextButton.textContent = at === last ? (hasNext ? 'Next lesson' : 'All lessons') : isComplete ? 'Next' : 'Skip';
  nextButton.dataset.ready = isComplete;
  const titles = [...page.steps.map(each => each.title), 'Check yourself'];
  find('.sl-lesson-steps').replaceChildren(
    ...titles.map((title, index) => {
      const about = {
        title,
        'aria-label': `Step ${index + 1}: ${title}`,
        ...(index === at && { 'aria-current': 'step' }),
      };
      if (done.includes(index)) about['data-done'] = '';
      return make('li', '', [makeButton('', () => go(index), 'sl-dot', about)]);
    }),
  );
}
