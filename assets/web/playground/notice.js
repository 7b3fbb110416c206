// Draws the banner: a sentence, and a thin bar while something loads. Its text may quote the visitor, so it is only text.
const box = element.querySelector('.sl-notice'), progress = element.querySelector('.sl-progress');
const words = element.querySelector('.sl-words'), alert = element.querySelector('.sl-alert');

onValue(value => {
  const { kind = 'quiet', text = '', fraction, place = null } = JSON.parse(value || '{}');
  box.dataset.kind = kind;
  words.setAttribute('aria-live', kind === 'progress' ? 'off' : 'polite');   // numbers that count up are not read aloud
  const [full, empty] = kind === 'error' ? [alert, words] : [words, alert];
  setText(full, text);
  empty.textContent = '';
  if (kind === 'error') box.scrollIntoView({ block: 'nearest' });       // it may be about a button far below
  if (value) expectValues(kind === 'progress');
  if (element.closest('#notice')) document.dispatchEvent(new CustomEvent('speclens-place', { detail: place }));
  progress.hidden = kind !== 'progress' || fraction == null;
  if (!progress.hidden) progress.firstElementChild.style.transform = `scaleX(${fraction})`;
});
