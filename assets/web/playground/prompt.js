// Folds the prompt on Escape, because it grows over the row below it while it has the focus. Offers a typed text again
// after an example, a lesson, a trace or a reload took its place.
import { closest, make } from '../lib/dom.js';
import { readAfterReload, storeForReload } from '../lib/storage.js';

const KEY = 'speclens-typed';
const FIELD = '#prompt textarea';
const REPLACING = '.sl-examples button:not(#own-text), #constraint-examples button, [data-lesson="live"]';
const OPENING = 'input:has(+ #open-trace)'; // gradio's field for the file

/** @returns {HTMLTextAreaElement | null} */
const findField = () => document.querySelector(FIELD);

export function listenForPrompt() {
  markOtherPrompt();
  let typed = readAfterReload(KEY) ?? '';
  let replaced = typed; // after a reload, the prompt comes from the address

  /** @param {boolean} isOffered */
  function offer(isOffered) {
    document.body.toggleAttribute('data-own-text', isOffered);
    const button = document.getElementById('own-text');
    if (isOffered && button) button.parentElement.scrollLeft = button.offsetLeft; // a phone's row is cut off
  }
  offer(Boolean(typed.trim()) && new URLSearchParams(location.search).get('prompt') !== typed);

  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && !event.isComposing) closest(event.target, FIELD)?.blur();
  });
  document.addEventListener('input', event => {
    if (!closest(event.target, FIELD)) return;
    typed = findField().value;
    storeForReload(KEY, typed);
  });

  // Called before gradio sends the event whose answer fills the field.
  function keepTyped() {
    if (!typed.trim()) return;
    replaced = typed;
    offer(true);
  }

  function putBack() {
    const field = findField(),
      text = replaced;
    keepTyped(); // a newer text comes back in its turn
    field.value = text;
    field.dispatchEvent(new Event('input', { bubbles: true })); // gradio reads the field on this event
    offer(replaced !== text);
    if (replaced === text) field.focus(); // the button goes
  }

  const before = { capture: true };
  document.addEventListener(
    'click',
    event => {
      if (closest(event.target, REPLACING)) keepTyped();
      else if (closest(event.target, '#own-text')) putBack();
    },
    before,
  );
  document.addEventListener('change', event => closest(event.target, OPENING) && keepTyped(), before);
}

// Says beside the source of the run on the stage that the field holds another prompt. The stage cuts a long one.
function markOtherPrompt() {
  const mark = make('span', 'sl-other-prompt', 'of another prompt', { hidden: '' });
  const plain = text => text.trim().split(/\s+/).join(' ');
  function show() {
    const stage = document.querySelector('#stage .sl-player'),
      typed = plain(findField()?.value ?? '');
    if (!(stage instanceof HTMLElement)) return;
    const prompt = stage.querySelector('.sl-asked').textContent;
    if (!mark.isConnected) {
      stage.querySelector('.sl-source').after(mark);
      new MutationObserver(show).observe(stage, { attributeFilter: ['data-kind'] }); // another run, or its end
    }
    const isSame = prompt.endsWith('…') ? typed.startsWith(prompt.slice(0, -1)) : typed === prompt;
    mark.hidden = !typed || !prompt || stage.dataset.kind === 'running' || isSame;
  }
  document.addEventListener('input', show);
}
