// Folds the prompt on Escape, because it grows over the row below it while it has the focus. Offers a typed text again
// after an example or a lesson took its place.
import { closest } from '../lib/dom.js';

const FIELD = '#prompt textarea';
const REPLACING = '.sl-examples button:not(#own-text), #constraint-examples button, [data-lesson="live"]';

/** @returns {HTMLTextAreaElement | null} */
const findField = () => document.querySelector(FIELD);

export function listenForPrompt() {
  let typed = '',
    replaced = '';

  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && !event.isComposing) closest(event.target, FIELD)?.blur();
  });
  document.addEventListener('input', event => {
    if (closest(event.target, FIELD)) typed = findField().value;
  });

  function putBack() {
    const field = findField();
    field.value = replaced;
    field.dispatchEvent(new Event('input', { bubbles: true })); // gradio reads the field on this event
    field.focus();
  }

  // Before gradio sends the click, whose answer fills the field.
  document.addEventListener(
    'click',
    event => {
      const isReplaced = Boolean(closest(event.target, REPLACING)) && typed.trim() && findField()?.value === typed;
      if (isReplaced) replaced = typed;
      else if (closest(event.target, '#own-text')) putBack();
      else return;
      document.body.toggleAttribute('data-own-text', Boolean(isReplaced));
      if (isReplaced) document.querySelector('#own-text').scrollIntoView({ block: 'nearest', inline: 'nearest' }); // on a phone
    },
    { capture: true },
  );
}
