// One tab an engine: its recipe as text, and a button that copies it.
const find = selector => element.querySelector(selector);
const lead = find('.sl-production-lead'), tabs = find('.sl-engines'), panel = find('.sl-recipe');
const version = find('.sl-recipe-version'), code = find('.sl-recipe-code'), note = find('.sl-recipe-note');
const copy = find('.sl-recipe-copy');
let engines = [], current = 'vLLM';

function choose(name, focus) {
  const engine = engines.find(one => one.name === name) || engines[0];
  panel.hidden = tabs.hidden = !engine;
  if (!engine) return;
  current = engine.name;
  for (const tab of tabs.children) {
    const on = tab.dataset.engine === current;
    tab.setAttribute('aria-selected', on);
    tab.tabIndex = on ? 0 : -1;
    if (on) panel.setAttribute('aria-labelledby', tab.id);
    if (on && focus) tab.focus();
  }
  version.textContent = `Flags of ${engine.name} ${engine.version}`;
  code.textContent = engine.code || '';
  code.hidden = copy.hidden = !engine.code;
  note.textContent = engine.note || '';
  copy.textContent = 'Copy';
}

function tab(engine, index) {
  const node = document.createElement('button');
  node.type = 'button';
  node.className = 'sl-engine';
  node.id = `${panel.id}-engine-${index}`;
  node.dataset.engine = engine.name;
  node.textContent = engine.name;
  node.setAttribute('role', 'tab');
  node.setAttribute('aria-controls', panel.id);
  node.addEventListener('click', () => choose(engine.name));
  return node;
}

function draw() {
  find('.sl-production').hidden = !props.value;            // a sweep has no best setting before it has run
  if (!props.value) return;
  const state = JSON.parse(props.value);
  lead.textContent = state.lead;
  engines = state.engines;
  if (tabs.children.length !== engines.length) tabs.replaceChildren(...engines.map(tab));
  choose(current);
}

tabs.addEventListener('keydown', event => {
  const here = engines.findIndex(engine => engine.name === current), count = engines.length;
  const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: count - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  choose(engines[(next + count) % count].name, true);
});

copy.addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(code.textContent);
    copy.textContent = 'Copied';
  } catch {                               // no permission, or a page without https: select it instead
    getSelection().selectAllChildren(code);
    copy.textContent = 'Selected: press Ctrl + C';
  }
});

watch('value', draw);
draw();
