// Writes the open lesson into the page's address, and opens the lesson that it names: #lesson-3 is the third, and
// #lesson-7-guess-2 the second text of its guessing game.

// ``isHere()``: the lessons are on the page; ``current()``: the number of the open lesson, or undefined; ``open(number, text)``:
// opens it, at the game with that text if there is one; ``element``: has the links to lessons. Returns functions that write the address or clear it, and that open the
// lesson it names, if any.
export function makeAddress(element, { isHere, current, open }) {
  function write(hash) {
    if (location.hash === hash) return;
    try {
      history.replaceState(history.state, '', location.pathname + location.search + hash);
    } catch {
      /* a page without an address */
    }
  }
  const writeCurrent = () => write(current() === undefined ? '#lessons' : `#lesson-${current()}`);
  const clear = () => write('');

  function openNamed() {
    const [, number, text] = /^#lesson-(\d{1,3})(?:-guess-(\d))?$/.exec(location.hash) || [];
    if (number) open(Number(number), Number(text));
    return Boolean(number);
  }

  // Gradio 6.31 sets a base URL without the query, so the browser itself would load the page anew, and a run would be lost.
  element.addEventListener('click', event => {
    const link = event.target.closest('a[href^="#lesson-"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    location.hash = link.hash;
  });
  window.addEventListener('hashchange', () => {
    if (isHere()) openNamed();
  });
  // The address names the lesson only while its tab is open, because the playground has an address of its own.
  document.addEventListener(
    'click',
    event => {
      if (!event.isTrusted) return; // a link that opens the tab has its own address
      if (event.target.closest?.('#playground-tab-button, #lab-tab-button')) clear();
      if (event.target.closest?.('#lessons-tab-button')) writeCurrent();
    },
    true,
  );
  return { writeCurrent, clear, openNamed };
}
