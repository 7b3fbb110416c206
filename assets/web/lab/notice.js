// Draws the banner of an experiment: a sentence, and a thin bar while it works.
import { onValue } from '../lib/dom.js';
import { makeHeartbeat } from '../lib/heartbeat.js';
import { makeNotice } from '../lib/notice_box.js';
import { keepForm } from './kept_form.js';

export function mount(part) {
  const box = part.element.querySelector('.sl-notice'),
    expectValues = makeHeartbeat(part),
    show = makeNotice(box);

  // The results begin below the notice; Stop stays above it, at the top of the window (lab.css).
  function bringIntoSight() {
    if (box.getBoundingClientRect().top > window.innerHeight / 2) box.scrollIntoView({ block: 'start' });
  }

  keepForm(part, box);
  onValue(part, value => {
    const status = JSON.parse(value || '{}'),
      isProgress = status.kind === 'progress';
    if (isProgress && box.dataset.kind !== status.kind) bringIntoSight();
    show(status);
    if (value) expectValues(isProgress);
  });
}
