// Shows the engine's state, fetched every two seconds while the page is visible. It is fetched without gradio's queue
// and session, because thirty pages do so. The visitor's own place in the queue is shown instead, if there is one.
import { setText } from '../lib/dom.js';

export function mount({ element, trigger }) {
  const EVERY = 2000;
  const box = element.querySelector('.sl-engine-status'),
    words = element.querySelector('.sl-engine-status-words');
  let engine = { kind: 'asleep', text: '' },
    settled = false;
  let place = null; // the runs ahead of this visitor's; 0 while it runs, null without a run

  function draw() {
    let shown = engine;
    if (place) shown = { kind: 'waiting', text: `Your place in the queue: ${place + 1}` };
    else if (place === 0 && engine.kind === 'busy') shown = { ...engine, text: `${engine.text}: your run` };
    box.dataset.kind = shown.kind;
    box.hidden = !shown.text;
    // A percentage that counts up is not read aloud.
    box.setAttribute('aria-live', shown.kind === 'loading' ? 'off' : 'polite');
    setText(words, shown.text);
  }

  // ``settled`` fires once, when no model is being loaded: requests to the engine would slow the loading down.
  function receive(state) {
    engine = state;
    document.body.classList.toggle('sl-has-tab', Boolean(state.tab)); // shows the links of app/playground/tab_link.py
    if (settled || engine.kind === 'loading') return;
    settled = true;
    trigger('settled');
  }

  async function poll() {
    if (!element.isConnected) return;
    if (!document.hidden) {
      try {
        const answer = await fetch(new URL('_state', document.baseURI), { cache: 'no-store' });
        if (answer.ok) receive(await answer.json());
      } catch {
        engine = { kind: 'lost', text: 'The server does not answer' };
      }
      draw();
    }
    setTimeout(poll, EVERY);
  }

  document.addEventListener('speclens-place', event => {
    // sent by player/stage.js
    place = event.detail;
    draw();
  });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) draw();
  });
  draw();
  poll();
}
