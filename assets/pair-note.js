// What is to be known about the models chosen, before they are loaded. Text only.
const note = element.querySelector('.sl-pair-note'), name = element.querySelector('.sl-pair-name');

// A screen reader has the name from its field, cut or not.
function room() {
  const field = document.querySelector('#pair input');
  name.hidden = !name.textContent || !field || field.scrollWidth <= field.clientWidth;
}

function draw() {
  const { kind, text, title = '' } = props.value ? JSON.parse(props.value) : { kind: 'quiet', text: '' };
  note.dataset.kind = kind;
  note.hidden = !text;
  if (note.textContent !== text) note.textContent = text;
  name.textContent = title;
  requestAnimationFrame(room);          // once the field holds the name as well
}

watch('value', draw);
window.addEventListener('resize', room);
draw();
