// Shows one sentence at a time in a notice: progress, a verdict or an error. Its text may
// quote the visitor, so it is only text.
import { makeFind, setText } from './dom.js';

// Returns a function that shows a status, and is called again for each.
export function makeNotice(box) {
  const find = makeFind(box);
  const words = find('.sl-words'),
    alert = find('.sl-alert'),
    progress = find('.sl-progress');

  // A tap shows a sentence whole that is cut, and cuts it again.
  box.addEventListener('click', () => {
    const isCut = [words, alert].some(({ scrollHeight, clientHeight }) => scrollHeight > clientHeight);
    box.toggleAttribute('data-whole', isCut && !box.hasAttribute('data-whole'));
  });

  /** @param {{ kind?: string, text?: string, fraction?: number, old?: boolean }} status */
  return function show({ kind = 'quiet', text = '', fraction, old = false }) {
    box.dataset.kind = kind;
    box.toggleAttribute('data-old', old); // the figures below are an earlier run's, drawn in grey (lab.css)
    box.removeAttribute('data-whole');
    words.setAttribute('aria-live', kind === 'progress' ? 'off' : 'polite'); // numbers that count up are not read aloud
    const [full, empty] = kind === 'error' ? [alert, words] : [words, alert];
    setText(full, text);
    full.title = text; // the whole of a sentence that is cut
    empty.textContent = '';
    if (kind === 'error') box.scrollIntoView({ block: 'nearest' }); // it may be about a button far below
    progress.hidden = kind !== 'progress' || fraction == null;
    if (!progress.hidden) find('.sl-progress > div').style.transform = `scaleX(${fraction})`;
  };
}
