// Makes and changes elements. Every part begins with this file. Text of a model or a visitor only ever meets textContent.

function make(tag, className, content) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
}

function makeButton(text, action, className = 'sl-button') {
  const node = make('button', className, text);
  node.type = 'button';
  node.addEventListener('click', action);
  return node;
}

// Writes only a change, because a screen reader may read a text that is written again.
const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };
