// The banner: words for people, a thin bar while something loads. Text only, never HTML.
const box = element.querySelector('.sl-notice');
const words = element.querySelector('.sl-words');
const alert = element.querySelector('.sl-alert');
const progress = element.querySelector('.sl-progress');

function draw() {
  const { kind, text, fraction } = props.value ? JSON.parse(props.value) : { kind: 'quiet', text: '' };
  box.dataset.kind = kind;
  words.setAttribute('aria-live', kind === 'progress' ? 'off' : 'polite');   // counting aloud helps nobody
  const [full, empty] = kind === 'error' ? [alert, words] : [words, alert];
  if (full.textContent !== text) full.textContent = text;
  empty.textContent = '';
  if (kind === 'error') box.scrollIntoView({ block: 'nearest' });       // it may be about a button far below
  if (props.value) wait(kind === 'progress' ? Infinity : TRIES);   // what follows a run may be lost as well
  progress.hidden = kind !== 'progress' || fraction == null;
  if (!progress.hidden) progress.firstElementChild.style.transform = `scaleX(${fraction})`;
}

// The server ends a page's stream of news once nothing is under way for the page. Who asks for the next thing before
// that has been heard waits at a stream that is gone, for ever; any other request opens a new one, and all that was
// kept back comes with it. So after a press, and while something runs, silence is answered with a request for nothing.
// Seldomer and seldomer, for thirty who wait in the line cost the engine time, and thrice where nothing is to be expected.
const SOON = 4000, SELDOM = 32000, TRIES = 3;
let silence = null;

function wait(tries, patience = SOON) {
  clearTimeout(silence);
  if (tries) silence = setTimeout(() => { trigger('unheard'); wait(tries - 1, Math.min(2 * patience, SELDOM)); }, patience);
}
const press = event => { if (element.isConnected && element.offsetParent && event.target.closest?.('button, textarea')) wait(TRIES); };
document.addEventListener('click', press, true);
document.addEventListener('keydown', event => { if (event.key === 'Enter') press(event); }, true);

watch('value', draw);
draw();
