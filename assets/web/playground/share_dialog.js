// Makes share links, hides controls, and presents. The server reads a link (link_handlers); unknown names do nothing.

import { isClassLink } from '../lib/class_link.js';
import { showCode } from '../lib/code_dialog.js';
import { copyText } from '../lib/copy_button.js';
import { closest, makeFind, onValue } from '../lib/dom.js';
import { isOwnMachine } from '../lib/own_machine.js';
import { makePresenting } from '../lib/presenting.js';
import { isReload } from '../lib/storage.js';
import { listenForDrawer } from './drawer.js';
import { listenForPrompt } from './prompt.js';
import { reloadedRun, rememberRun } from './reload.js';
import { makeUrlQuery } from './url_query.js';

const MOST_WAIT = 5000; // milliseconds after a reload, for the visitor's run to come back

// Hidden with any of these controls, because they would change its value or name it.
const HIDDEN_WITH = {
  '#dice': ['seed'],
  '#own-text': ['prompt'],
  '.sl-examples button:not(#own-text)': ['prompt', 'method', 'gamma', 'auto', 'temperature', 'constraint'],
  '#own-model': ['pair', 'method'],
  '.sl-minute-tab': ['prompt'],
  '.sl-controls-hint': ['temperature', 'gamma'],
  '#constraint-examples': ['prompt', 'constraint', 'json_schema', 'regex', 'choice'],
};

// Hidden with any control: what would change them all, and what a class is not meant to see. The latter stays hidden on a
// class's link, even if a learner shows the controls.
const CHANGING_ALL = ['#reset', '#open-trace', '[data-lesson="live"]'];
const FOR_TEACHERS = ['.sl-lesson-papers', '.sl-lesson-teacher'];

export function mount(part) {
  const { element, trigger } = part;
  const find = makeFind(element);
  const all = selector => [...element.querySelectorAll(selector)];
  /** @type {HTMLDialogElement} */
  const dialog = find('.sl-share');
  /** @type {HTMLInputElement} */
  const field = find('#sl-share-link');
  /** @type {HTMLButtonElement} */
  const copy = find('[data-share="copy"]');
  /** @type {HTMLInputElement} */
  const present = find('[name="present"]');
  const message = find('.sl-share-said'),
    reveal = find('[data-share="show"]');
  const ticks = all('[name="hide"]'),
    names = ticks.map(tick => tick.value);
  const address = makeUrlQuery(names);
  const forClass = isClassLink();
  let query = '',
    hidden = [],
    openedPresenting = false;

  // ── hiding: by a style sheet, because gradio may draw its controls again at any time ──
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

  function hide(listed) {
    hidden = names.filter(name => listed.includes(name));
    const selectors = hidden.map(name => `#${name}`);
    for (const [button, controls] of Object.entries(HIDDEN_WITH))
      if (controls.some(name => hidden.includes(name))) selectors.push(button);
    if (hidden.length) selectors.push(...CHANGING_ALL);
    if (hidden.length || forClass) selectors.push(...FOR_TEACHERS);
    if (names.every(name => name === 'prompt' || hidden.includes(name)))
      selectors.push('#settings', 'body:not([data-own-text]) #quick'); // the drawer and the row are empty
    // Gradio's frame around only hidden ones.
    if (selectors.length) selectors.push(`:is(#quick, #drawer) .form:not(:has(> :not(${selectors.join(', ')})))`);
    sheet.replaceSync(selectors.map(selector => `${selector} { display: none !important; }`).join('\n'));
    for (const tick of ticks) tick.checked = hidden.includes(tick.value);
    reveal.hidden = !hidden.length;
  }

  const show = makePresenting(find('[data-share="present"]'));

  // ── the link ──
  const chosenControls = () => ticks.filter(tick => tick.checked).map(tick => tick.value);

  function write(problem) {
    field.value = problem ? '' : address.link(query, chosenControls(), present.checked);
    copy.disabled = Boolean(problem);
    message.textContent = problem || '';
  }

  // Ticks for controls that the page shows come first, and for the hidden ones; the rest is folded.
  function sortTicks() {
    const [shown, rest] = all('.sl-share-ticks');
    for (const tick of ticks) {
      const control = document.getElementById(tick.value);
      const isShown = tick.checked || (control && getComputedStyle(control).display !== 'none');
      (isShown ? shown : rest).append(tick.closest('label'));
    }
  }

  async function copyLink() {
    message.textContent = `${await copyText(field.value, () => {
      field.focus();
      field.select();
    })}.`;
  }

  function drawCode() {
    if (field.value && !showCode(element, field.value))
      message.textContent = 'This link is too long for a QR code: shorten the prompt.';
  }

  const actions = {
    qr: drawCode,
    open() {
      copy.disabled = true;
      field.value = message.textContent = '';
      sortTicks();
      find('.sl-share-local').hidden = !isOwnMachine(location.hostname);
      find('.sl-share-place').hidden = !location.hash;
      for (const part of all('.sl-share-run')) part.hidden = Boolean(location.hash);
      dialog.showModal();
      trigger('asked');
    },
    copy: copyLink,
    'only-prompt'() {
      for (const tick of ticks) tick.checked = tick.value !== 'prompt';
      if (!copy.disabled) write();
    },
    close: () => dialog.close(),
    show() {
      hide([]);
      write();
    },
  };
  element.addEventListener('click', event => actions[closest(event.target, '[data-share]')?.dataset.share]?.());
  for (const tick of [...ticks, present])
    tick.addEventListener('change', () => {
      if (!copy.disabled) write();
    });

  // ── values from the server ──
  onValue(part, value => {
    const news = JSON.parse(value || '{}');
    if (news.hide) {
      hide(news.hide);
      present.checked = openedPresenting = news.present;
      if (news.present && find('[data-share="present"]').checkVisibility()) show(true); // a phone could not leave it
    }
    if (news.link !== undefined) {
      query = news.link;
      write(location.hash ? '' : news.problem);
    }
    if (news.run) rememberRun(news.run);
    if (news.resumed) trigger('resumed');
    if (news.address !== undefined) address.show(news.address, hidden, openedPresenting);
  });
  listenForDrawer();
  listenForPrompt();
  hide(address.findHidden()); // the server answers later
  const run = reloadedRun();
  if (run) {
    document.body.dataset.awaitsRun = ''; // the recorded run stays hidden: it would look like this one
    setTimeout(() => delete document.body.dataset.awaitsRun, MOST_WAIT);
  }
  if (run || address.asks()) trigger('opened', { query: location.search, reload: isReload(), run });
}
