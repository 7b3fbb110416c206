// What the engine is up to, asked for every two seconds while somebody looks; the visitor's own place goes before it.
const EVERY = 2000;
const chip = element.querySelector('.sl-chip'), words = element.querySelector('.sl-chip-words');
let common = { kind: 'asleep', text: '' }, settled = false;

function draw() {
  const own = props.value ? JSON.parse(props.value) : { kind: '' };
  const shown = own.kind === 'waiting' ? own
    : own.kind === 'yours' && common.kind === 'busy' ? { ...common, text: `${common.text}: your run` }
    : common;
  chip.dataset.kind = shown.kind;
  chip.hidden = !shown.text;
  // A percentage that counts up is not for reading aloud.
  chip.setAttribute('aria-live', shown.kind === 'loading' ? 'off' : 'polite');
  if (words.textContent !== shown.text) words.textContent = shown.text;
}

// What a page asks of the engine waits while a model is being loaded: answering would take the processor from loading.
function told(state) {
  common = state;
  if (settled || common.kind === 'loading') return;
  settled = true;
  trigger('settled');
}

async function ask() {
  if (!element.isConnected) return;
  if (!document.hidden) {
    try {
      const answer = await fetch(new URL('speclens/state', document.baseURI), { cache: 'no-store' });
      if (answer.ok) told(await answer.json());
    } catch {
      common = { kind: 'lost', text: 'The server does not answer' };
    }
    draw();
  }
  setTimeout(ask, EVERY);
}

watch('value', draw);
document.addEventListener('visibilitychange', () => { if (!document.hidden) draw(); });
draw();
ask();
