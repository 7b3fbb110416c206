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
  progress.hidden = kind !== 'progress' || fraction == null;
  if (!progress.hidden) progress.firstElementChild.style.transform = `scaleX(${fraction})`;
}

watch('value', draw);
draw();
