// Draws a note on the chosen models: their full name where the field cuts it off, and problems with their files.
import { onValue, setText } from '../lib/dom.js';

export function mount(part) {
  const { element } = part;
  const note = element.querySelector('.sl-pair-note'),
    name = element.querySelector('.sl-pair-name');

  // Hidden from screen readers, which read the full name from its field.
  function fitName() {
    const field = document.querySelector('#pair input');
    name.hidden = !name.textContent || !field || field.scrollWidth <= field.clientWidth;
  }

  onValue(part, value => {
    const { kind = 'quiet', text = '', title = '' } = JSON.parse(value || '{}');
    note.dataset.kind = kind;
    note.hidden = !text;
    setText(note, text);
    name.textContent = title;
    requestAnimationFrame(fitName); // after the field has the name
  });
  window.addEventListener('resize', fitName);
}
