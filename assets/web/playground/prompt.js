// Folds the prompt on Escape. It grows over the row below it while it has the focus.

export function listenForPrompt() {
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && !event.isComposing && event.target.matches?.('#prompt textarea')) event.target.blur();
  });
}
