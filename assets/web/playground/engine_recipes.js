// Draws a tab for each engine: its recipe as text, and a button that copies it. The value is views.engine_recipes.

import { copyText } from '../lib/copy_button.js';
import { makeButton, makeFind, onValue } from '../lib/dom.js';

export function mount(part) {
  const { element } = part;
  const find = makeFind(element);
  const lead = find('.sl-production-lead'),
    tabs = find('.sl-engines'),
    panel = find('.sl-recipe');
  const version = find('.sl-recipe-version'),
    code = find('.sl-recipe-code'),
    note = find('.sl-recipe-note');
  const copy = find('.sl-recipe-copy'),
    record = find('.sl-record-code'),
    copyRecord = find('.sl-record-copy');
  let engines = [],
    current = 'vLLM';

  function choose(name, focus) {
    const engine = engines.find(one => one.name === name) || engines[0];
    panel.hidden = tabs.hidden = !engine;
    if (!engine) return;
    current = engine.name;
    /** @type {NodeListOf<HTMLElement>} */
    const buttons = tabs.querySelectorAll('[role="tab"]');
    for (const tab of buttons) {
      const on = tab.dataset.engine === current;
      tab.setAttribute('aria-selected', String(on));
      tab.tabIndex = on ? 0 : -1;
      if (on) panel.setAttribute('aria-labelledby', tab.id);
      if (on && focus) tab.focus();
    }
    version.textContent = `Flags of ${engine.name} ${engine.version}`;
    code.textContent = engine.code || '';
    code.hidden = copy.hidden = !engine.code;
    note.textContent = engine.note || '';
    record.textContent = engine.record || '';
    find('.sl-record-note').textContent = engine.record_note || '';
    find('.sl-recipe-recording').hidden = !engine.record;
    copy.textContent = copyRecord.textContent = 'Copy';
  }

  function tab(engine, index) {
    const about = {
      id: `${panel.id}-engine-${index}`,
      'data-engine': engine.name,
      role: 'tab',
      'aria-controls': panel.id,
    };
    return makeButton(engine.name, () => choose(engine.name), 'sl-engine', about);
  }

  onValue(part, value => {
    find('.sl-production').hidden = !value; // before a sweep has run
    if (!value) return;
    const state = JSON.parse(value);
    lead.textContent = state.lead;
    engines = state.engines;
    if (tabs.children.length !== engines.length) tabs.replaceChildren(...engines.map(tab));
    choose(current);
  });

  tabs.addEventListener('keydown', event => {
    const here = engines.findIndex(engine => engine.name === current),
      count = engines.length;
    const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: count - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(engines[(next + count) % count].name, true);
  });

  const copies = (button, text) =>
    button.addEventListener('click', async () => {
      button.textContent = await copyText(text.textContent, () => getSelection().selectAllChildren(text));
    });
  copies(copy, code);
  copies(copyRecord, record);
}
