// Draws the banner of an experiment: a sentence, and a thin bar while it works. Its text may quote the visitor, so it is
// only text.
import { onValue, setText } from '../lib/dom.js';
import { makeHeartbeat } from '../lib/heartbeat.js';

export function mount(part) {
  const { element } = part, expectValues = makeHeartbeat(part);
  const box = element.querySelector('.sl-notice'), progress = element.querySelector('.sl-progress');
  const words = element.querySelector('.sl-words'), alert = element.querySelector('.sl-alert');

  // The results begin below the notice.
  function bringIntoSight() {
    if (box.getBoundingClientRect().top > window.innerHeight / 2) box.scrollIntoView({ block: 'start' });
  }

  onValue(part, value => {
    const { kind = 'quiet', text = '', fraction } = JSON.parse(value || '{}');
    if (kind === 'progress' && box.dataset.kind !== kind) bringIntoSight();
    box.dataset.kind = kind;
    words.setAttribute('aria-live', kind === 'progress' ? 'off' : 'polite');   // numbers that count up are not read aloud
    const [full, empty] = kind === 'error' ? [alert, words] : [words, alert];
    setText(full, text);
    empty.textContent = '';
    if (kind === 'error') box.scrollIntoView({ block: 'nearest' });       // it may be about a button far below
    if (value) expectValues(kind === 'progress');
    progress.hidden = kind !== 'progress' || fraction == null;
    if (!progress.hidden) progress.firstElementChild.style.transform = `scaleX(${fraction})`;
  });
}
