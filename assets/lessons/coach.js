// The bar that goes with the learner to the playground: what to try there, and the way back. The control that it
// speaks of glows until it is touched. It hears of what happens on the page; it changes nothing there.

function makeCoach({ back }) {
  document.querySelector('.sl-coach')?.remove();           // of a page drawn before
  const bar = make('aside', 'sl-coach'), words = make('p'), home = make('button', 'sl-button', 'Back to the lesson');
  bar.setAttribute('aria-label', 'Lesson');
  words.setAttribute('role', 'status');
  home.type = 'button';
  bar.append(words, home);
  bar.hidden = true;
  // gradio lets rules for widths reach only what stands within .contain.
  (document.querySelector('.gradio-container .contain') || document.body).append(bar);
  let glowing = null, stop = () => {}, later = null;

  function calm() { clearTimeout(later); glowing?.classList.remove('sl-glow'); glowing = null; stop(); }

  // A control may be folded away, then what it is folded into glows; or not be there at all (a device has one precision).
  function seen(name) {
    const node = document.getElementById(name);
    return node?.getClientRects().length ? node : node?.closest('#more') || document.getElementById('run');
  }

  // The playground's tab opens only when the server has answered.
  function glow(name, tries = 200) {
    calm();
    if (!document.getElementById('run')?.getClientRects().length) {
      if (tries) later = setTimeout(() => glow(name, tries - 1), 50);
      return;
    }
    glowing = seen(name);
    glowing.classList.add('sl-glow');
    const { top, bottom } = glowing.getBoundingClientRect();
    if (top < 0 || bottom > bar.getBoundingClientRect().top) glowing.scrollIntoView({ block: 'center' });   // not behind the bar
    const acted = event => { if (glowing?.contains(event.target)) calm(); };
    for (const kind of ['input', 'change', 'click']) document.addEventListener(kind, acted, true);
    stop = () => { for (const kind of ['input', 'change', 'click']) document.removeEventListener(kind, acted, true); stop = () => {}; };
  }

  // Told once a run of this visitor's own has ended.
  let watching = null;
  function watchRun(ended) {
    watching?.disconnect();
    const run = document.getElementById('run');
    if (!run) return;
    let running = false;
    watching = new MutationObserver(() => {
      const now = run.textContent.includes('Running');
      if (running && !now) { watching.disconnect(); ended(); }
      running = now;
    });
    watching.observe(run, { childList: true, subtree: true, characterData: true });
  }

  function hide() { bar.hidden = true; calm(); watching?.disconnect(); }
  home.addEventListener('click', () => { hide(); back(); });

  return {
    hide,
    // In the lab nothing of the playground glows, and nobody waits for its run.
    beside(hint) {
      calm();
      words.textContent = hint;
      bar.hidden = false;
    },
    show(hint, control, ran) {
      words.textContent = hint;
      bar.hidden = false;
      glow(control || 'run');
      watchRun(() => { words.textContent = 'Done: look at it, change something, run it again, or go back to the lesson.'; ran(); });
    },
  };
}
