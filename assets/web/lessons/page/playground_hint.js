// Shows a bar over the playground or the lab: a task, and a button back to the lesson. The control of the task glows
// until it is touched. The bar listens to the page and changes nothing there.
import { make, makeButton } from '../../lib/dom.js';

export function makePlaygroundHint({ back }) {
  document.querySelector('.sl-coach')?.remove(); // of an earlier drawing
  const words = make('p', '', '', { role: 'status' }),
    home = makeButton('Back to the lesson', () => {
      hide();
      back();
    });
  const bar = make('aside', 'sl-coach', [words, home], { 'aria-label': 'Lesson', hidden: '' });
  // Inside .contain, because gradio applies rules for widths only there.
  (document.querySelector('.gradio-container .contain') || document.body).append(bar);
  let glowing = null,
    stop = null,
    later = null;

  function clearGlow() {
    clearTimeout(later);
    glowing?.classList.remove('sl-glow');
    glowing = null;
    stop?.abort();
  }

  // The control itself, or the button that brings it into sight, or Run if this page
  // lacks it (a device with one precision).
  function findVisible(name) {
    const node = document.getElementById(name);
    return node?.getClientRects().length ? node : document.getElementById(node ? 'settings' : 'run');
  }

  // The playground's tab opens only when the server has answered.
  function glow(name, tries = 200) {
    clearGlow();
    if (!document.getElementById('run')?.getClientRects().length) {
      if (tries) later = setTimeout(() => glow(name, tries - 1), 50);
      return;
    }
    glowing = findVisible(name);
    glowing.classList.add('sl-glow');
    const { top, bottom } = glowing.getBoundingClientRect();
    // Not covered by the bar.
    if (top < 0 || bottom > bar.getBoundingClientRect().top) glowing.scrollIntoView({ block: 'center' });
    stop = new AbortController();
    const onAct = event => {
      if (glowing?.contains(event.target)) clearGlow();
    };
    for (const kind of ['input', 'change', 'click'])
      document.addEventListener(kind, onAct, { capture: true, signal: stop.signal });
  }

  // Calls ``ended`` once, after a run of this visitor.
  let watching = null;
  function watchRun(ended) {
    watching?.disconnect();
    const run = document.getElementById('run');
    if (!run) return;
    let running = false;
    watching = new MutationObserver(() => {
      const now = run.textContent.includes('Running');
      if (running && !now) {
        watching.disconnect();
        ended();
      }
      running = now;
    });
    watching.observe(run, { childList: true, subtree: true, characterData: true });
  }

  function hide() {
    bar.hidden = true;
    clearGlow();
    watching?.disconnect();
  }

  return {
    hide,
    // In the lab: the task alone.
    beside(hint) {
      clearGlow();
      words.textContent = hint;
      bar.hidden = false;
    },
    show(hint, control, ran) {
      document.querySelector('.sl-captions')?.remove(); // of the first visit, which the bar would cover on a phone
      words.textContent = hint;
      bar.hidden = false;
      glow(control || 'run');
      watchRun(() => {
        words.textContent = `${hint} ✓ It has run.`;
        ran();
      });
    },
  };
}
