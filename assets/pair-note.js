// What is to be known about the models chosen, before they are loaded. Text only.
const note = element.querySelector('.sl-pair-note');

function draw() {
  const { kind, text } = props.value ? JSON.parse(props.value) : { kind: 'quiet', text: '' };
  note.dataset.kind = kind;
  note.hidden = !text;
  if (note.textContent !== text) note.textContent = text;
}

watch('value', draw);
draw();
