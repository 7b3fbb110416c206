// Folds the prompt on Escape, because it grows over the row below it while it has the focus. Offers a typed text again
// after an example or a lesson took its place.

const FIELD = '#prompt textarea',
  REPLACING = '.sl-examples button:not(#own-text), #constraint-examples button, [data-lesson="live"]';

export function listenForPrompt() {
  let typed = '',
    replaced = '';

  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && !event.isComposing && event.target.matches?.(FIELD)) event.target.blur();
  });
  document.addEventListener('input', event => {
    if (event.target.matches?.(FIELD)) typed = event.target.value;
  });

  function putBack() {
    const field = document.querySelector(FIELD);
    field.value = replaced;
    field.dispatchEvent(new Event('input', { bubbles: true })); // gradio reads the field on this event
    field.focus();
  }

  // Before gradio sends the click, whose answer fills the field.
  document.addEventListener(
    'click',
    event => {
      const isReplaced = event.target.closest?.(REPLACING) && typed.trim();
      if (isReplaced && document.querySelector(FIELD)?.value === typed) replaced = typed;
      else if (event.target.closest?.('#own-text')) putBack();
      else return;
      document.body.toggleAttribute('data-own-text', Boolean(isReplaced));
      if (isReplaced) document.querySelector('#own-text').scrollIntoView({ block: 'nearest', inline: 'nearest' }); // on a phone
    },
    { capture: true },
  );
}
