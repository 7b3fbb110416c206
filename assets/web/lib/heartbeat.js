// Works around gradio 6.31 (compare gradio-app/gradio#7926): the server closes a page's event stream once none of its
// events is pending. The answer to an event that the page sends at that moment goes into the closed stream, so the page
// waits for ever. Any later event opens a new stream and brings the held-back answers. So this sends an event that does
// nothing after some silence.
import { closest } from './dom.js';

// Waits longer each time, because the events of thirty waiting pages cost the engine time; and only three times where no
// answer need come.
const FIRST = 4000; // milliseconds
const LONGEST = 32000;
const TRIES = 3;

// Returns ``expectValues(isRunning)``, to be called whenever a value comes; ``isRunning``: more will follow.
export function makeHeartbeat({ element, trigger }) {
  let silence = null;

  const expectValues = isRunning => wait(isRunning ? Infinity : TRIES, FIRST);

  function wait(tries, patience) {
    clearTimeout(silence);
    if (!tries) return;
    silence = setTimeout(() => {
      trigger('unheard');
      wait(tries - 1, Math.min(2 * patience, LONGEST));
    }, patience);
  }

  function expectAnswer(event) {
    if (element.isConnected && element.offsetParent && closest(event.target, 'button, textarea')) expectValues(false);
  }
  document.addEventListener('click', expectAnswer, true);
  document.addEventListener(
    'keydown',
    event => {
      if (event.key === 'Enter') expectAnswer(event);
    },
    true,
  );
  return expectValues;
}
