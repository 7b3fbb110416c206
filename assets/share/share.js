// Share, present, and what a link asked for. The server says what a link means; names not known here do nothing.
const find = selector => element.querySelector(selector), all = selector => [...element.querySelectorAll(selector)];
const dialog = find('.sl-share'), field = find('#sl-share-link'), said = find('.sl-share-said');
const copy = find('[data-share="copy"]'), presenting = find('[data-share="present"]'), reveal = find('[data-share="show"]');
const ticks = all('[name="hide"]'), names = ticks.map(tick => tick.value), present = find('[name="present"]');
const address = makeAddress(names);
const TYPING_HERE = 'input:not([type="range"]), textarea, select, [contenteditable="true"], [role="listbox"], dialog';
let query = '', hidden = [], openedPresenting = false;

// ── hiding: a sheet of our own, because gradio draws its controls anew whenever it likes ──
const sheet = new CSSStyleSheet();
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

function hide(wanted) {
  hidden = names.filter(name => wanted.includes(name));
  const gone = hidden.map(name => `#${name}`);
  if (hidden.includes('seed')) gone.push('#dice');
  if (hidden.length) gone.push('#reset');                   // it would reset what is hidden, too
  if (hidden.includes('auto') && hidden.includes('gamma')) gone.push('.sl-gamma');
  if (gone.length) gone.push(`.sl-settings .form:not(:has(> :not(${gone.join(', ')})))`);   // gradio's frame around nothing
  if (ticks.every(tick => !tick.hasAttribute('data-advanced') || hidden.includes(tick.value))) gone.push('#more');
  sheet.replaceSync(gone.map(selector => `${selector} { display: none !important; }`).join('\n'));
  for (const tick of ticks) tick.checked = hidden.includes(tick.value);
  reveal.hidden = !hidden.length;
}

// ── presenting ──
function show(on) {
  document.body.classList.toggle('sl-present', on);
  presenting.setAttribute('aria-pressed', on);
  presenting.textContent = on ? 'Leave presentation' : 'Present';
  window.dispatchEvent(new Event('resize'));                // charts and lanes measure themselves again
}
const two = matchMedia('(min-width: 1000px) and (max-width: 1499px)');
const arrange = () => document.body.classList.toggle('sl-two', two.matches);   // why here: see present.css
two.addEventListener('change', arrange);
arrange();
const toggle = () => show(!document.body.classList.contains('sl-present'));

document.addEventListener('keydown', event => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !element.isConnected) return;
  if (event.key.toLowerCase() !== 'p' || event.target.closest?.(TYPING_HERE)) return;
  event.preventDefault();
  toggle();
});

// ── the link ──
const chosen = () => ticks.filter(tick => tick.checked).map(tick => tick.value);

function write(problem) {
  field.value = problem ? '' : address.link(query, chosen(), present.checked);
  copy.disabled = Boolean(problem);
  said.textContent = problem || '';
}

async function take() {
  try {
    await navigator.clipboard.writeText(field.value);
    said.textContent = 'Copied.';
  } catch {                               // no permission, or a page without https
    field.focus();
    field.select();
    said.textContent = 'Selected: press Ctrl + C.';
  }
}

const actions = {
  open() {
    copy.disabled = true;
    field.value = said.textContent = '';
    dialog.showModal();
    trigger('asked');
  },
  present: toggle, copy: take, close: () => dialog.close(),
  show() { hide([]); write(); },
};
element.addEventListener('click', event => actions[event.target.closest('[data-share]')?.dataset.share]?.());
for (const tick of [...ticks, present]) tick.addEventListener('change', () => { if (!copy.disabled) write(); });

// ── what the server says ──
function told() {
  if (!props.value) return;
  const news = JSON.parse(props.value);
  if (news.hide) {
    hide(news.hide);
    present.checked = openedPresenting = news.present;
    if (news.present) show(true);
  }
  if (news.link !== undefined) { query = news.link; write(news.problem); }
  if (news.address !== undefined) address.show(news.address, hidden, openedPresenting);
}

watch('value', told);
if (address.asks()) trigger('opened', { query: location.search });
