// A lesson from beginning to end: its steps, what completes each, the keys, the address and the progress.

const find = selector => element.querySelector(selector), told = JSON.parse(props.value || '{"lessons":[]}').lessons;
const frame = find('.sl-lessons'), body = find('.sl-lesson-body'), turn = find('.sl-lesson-turn'), problem = find('.sl-lesson-problem');
const dots = find('.sl-lesson-steps'), nextButton = find('[data-lesson="next"]'), liveButton = find('[data-lesson="live"]');
const prose = makeProse(find('.sl-define')), progress = makeProgress(), stage = makeStage(find('.sl-lesson-stage'), find('.sl-lesson-caption'));
const coach = makeCoach({ back: openTab });
const TOOLS = { roofline: makeRoofline, dice: makeDice, curve: makeCurve, memory: makeMemory, crowd: makeCrowd,
  cuts: makeCuts, adding: makeAdding, price: makePrice };
const pages = new Map();
let page = null, at = 0, complete = false;
prose.listen(frame);
listenForPrinting(frame, prose, () => page);

function openTab() {
  document.getElementById('lessons-tab-button')?.click();
  address(here());
  requestAnimationFrame(settleView);                       // the playground may have been scrolled far down
}
const say = text => { turn.textContent = text; };

// ── the list ──
function drawList() {
  const cards = find('.sl-lesson-cards');
  cards.replaceChildren(...told.map(lesson => {
    const { at: step, done, over } = progress.of(lesson.slug), card = make('li'), link = make('a', 'sl-lesson-card');
    link.href = `#lesson-${lesson.number}`;
    link.append(make('span', 'sl-lesson-number', String(lesson.number)), make('strong', '', lesson.title), make('span', 'sl-lesson-summary', lesson.summary));
    const state = over ? '✓ done' : done.length || step ? `step ${Math.min(step + 1, lesson.steps + 1)} of ${lesson.steps + 1}` : `${lesson.minutes} minutes`;
    link.append(make('span', 'sl-lesson-state', state));
    if (over) link.dataset.over = '';
    card.append(link);
    return card;
  }));
}

function list() {
  page = null;
  frame.dataset.open = 'list';
  stage.calm();
  drawList();
  address('#lessons');
  find('#sl-lesson-list-title').scrollIntoView({ block: 'nearest' });
}

// ── opening one ──
async function load(number) {
  if (!pages.has(number)) {
    const answer = await fetch(new URL(`speclens/lessons/${number}`, document.baseURI));
    if (!answer.ok) throw new Error(String(answer.status));
    pages.set(number, await answer.json());
  }
  return pages.get(number);
}

let wanted = null;
async function open(number) {
  wanted = number;
  problem.textContent = '';
  const state = find(`[href="#lesson-${number}"] .sl-lesson-state`);
  const slow = setTimeout(() => { if (state) state.textContent = 'opening…'; }, 300);   // the first toy lesson has torch to load
  try {
    const found = await load(number);
    if (wanted !== number) return;                         // another one was asked for meanwhile
    page = found;
  } catch (error) {
    problem.textContent = error.message === '404' ? `There is no lesson ${number}.` : 'The lesson could not be fetched; the server may be gone. Try again.';
    return list();
  } finally {
    clearTimeout(slow);
  }
  frame.dataset.open = 'lesson';
  prose.use(page.words);
  find('#sl-lesson-title').textContent = `${page.number}. ${page.title}`;
  find('.sl-lesson-teacher > div').replaceChildren(...page.teacher.map(prose.block));
  find('.sl-lesson-teacher').open = false;
  liveButton.hidden = !page.live;
  address(`#lesson-${number}`);
  go(Math.min(progress.of(page.slug).at, page.steps.length));
  find('#sl-lesson-title').focus({ preventScroll: true });
  find('.sl-lesson-open').scrollIntoView({ block: 'start' });   // words and run need all the height there is
}

// ── one step; behind the last stands the quiz ──
const last = () => page.steps.length;

function go(to) {
  at = Math.max(0, Math.min(to, last()));
  progress.at(page.slug, at);
  complete = false;
  coach.hide();
  stage.calm();
  say('');
  body.replaceChildren(...(at === last() ? quiz() : step(page.steps[at])));
  if (at < last()) begin(page.steps[at]);
  drawNav();
}

function step(told) {
  const parts = [];
  if (at === 0) {
    const after = make('div', 'sl-outcomes'), all = make('ul');
    all.append(...page.outcomes.map(line => prose.line('li', line)));
    after.append(make('p', '', `${page.minutes} minutes. Afterwards you can say:`), all);
    parts.push(after);
  }
  parts.push(make('h3', '', told.title), ...told.blocks.map(prose.block));
  if (told.lab) parts.push(labButton(told.lab));
  if (told.tool) parts.push(TOOLS[told.tool](told.settings, () => done('')));
  if (told.ask) parts.push(makePrediction(prose, told.ask, () => { if (told.then) stage.go(told.then); point(told); done(''); showReply(); }));
  return parts;
}

// The lab is drawn when its tab is first opened, so its own tabs may take a moment to be there. On a narrow screen those
// that have no room stand in a menu, by their titles alone.
function openLab(name, title, tries = 100) {
  const menu = [...document.querySelectorAll('.overflow-dropdown button')];
  const tab = document.getElementById(`lab-${name}-button`) ?? menu.find(each => each.textContent.trim() === title);
  if (tab) tab.click(); else if (tries) setTimeout(openLab, 50, name, title, tries - 1);
}

function labButton({ name, title, hint }) {
  const place = make('p'), button = make('button', 'sl-button', `Open the lab: ${title}`);
  button.type = 'button';
  button.dataset.lab = name;
  button.addEventListener('click', () => {
    done('');
    document.getElementById('lab-tab-button')?.click();
    openLab(name, title);
    coach.beside(hint);
    address('');
  });
  place.append(button);
  return place;
}

function begin(told) {
  stage.show(told.run, page.runs[told.run], told.at);
  if (told.ask) say('Your turn: make a guess.');
  else if (told.tool) say('Your turn: move something and watch what changes.');
  else if (told.live) say('Your turn: “Run it live” fills the playground’s controls. You press Run there.');
  else if (told.lab) say('Your turn: the button opens an experiment; the way back stands below it.');
  else if (!told.points) complete = true;
  if (!told.ask) point(told);
}

// What the step speaks of glows: a token until it is locked; a control of the playground once the learner is there.
function point(told) {
  if (!told.points?.token) return;
  stage.glow(told.points.token, () => done(''));
  if (told.ask || told.tool) return;
  say('Your turn: click the glowing token. ');
  const press = make('button', 'sl-button', 'Show it to me');
  press.type = 'button';
  press.addEventListener('click', stage.press);
  turn.append(press);
}

function done(words) {
  // Else N would be typed into the field.
  if (document.activeElement?.closest('.sl-guess')) nextButton.focus({ preventScroll: true });
  progress.done(page.slug, at);
  complete = true;
  say(words);
  drawNav();
}

// The answer and the button that goes on come into sight, the question stays there.
function showReply() {
  const below = find('.sl-lesson-nav').getBoundingClientRect().bottom + 12 - window.innerHeight;
  const room = body.querySelector('.sl-question').getBoundingClientRect().top - 12;
  if (below > 0 && room > 0) window.scrollBy(0, Math.min(below, room));
}

function quiz() {
  const right = new Set(), end = make('p', 'sl-lesson-end');
  const box = makeQuiz(prose, page.quiz, index => {
    right.add(index);
    if (right.size < page.quiz.length) return;
    progress.over(page.slug);
    end.textContent = told.some(each => each.number === page.number + 1) ? 'That was this lesson. On to the next?' : 'That was the last lesson.';
    done('');
  });
  end.setAttribute('role', 'status');
  return [make('h3', '', 'What stays'), box, end];
}

function drawNav() {
  const seen = progress.of(page.slug);
  find('.sl-lesson-where').textContent = at === last() ? 'Questions' : `Step ${at + 1} of ${last()}`;
  find('[data-lesson="back"]').disabled = at === 0;
  const nextLesson = told.some(each => each.number === page.number + 1);
  nextButton.textContent = at === last() ? (nextLesson ? 'Next lesson' : 'All lessons') : complete ? 'Next' : 'Skip';
  nextButton.dataset.ready = complete;
  dots.replaceChildren(...[...page.steps.map(each => each.title), 'What stays'].map((title, index) => {
    const item = make('li'), button = make('button', 'sl-dot');
    button.type = 'button';
    button.title = title;
    button.setAttribute('aria-label', `Step ${index + 1}: ${title}`);
    if (index === at) button.setAttribute('aria-current', 'step');
    if (seen.done.includes(index)) button.dataset.done = '';
    button.addEventListener('click', () => go(index));
    item.append(button);
    return item;
  }));
}

// ── what the learner does ──
function next() {
  if (complete) progress.done(page.slug, at);
  if (at < last()) { go(at + 1); return settleView(); }
  if (told.some(each => each.number === page.number + 1)) open(page.number + 1); else list();
}
function back() { if (at > 0) { go(at - 1); settleView(); } }
// On a phone the text stands far above the buttons that turn it.
function settleView() { if (find('#sl-lesson-title').getBoundingClientRect().top < 0) find('.sl-lesson-page').scrollIntoView({ block: 'start' }); }

function live() {
  const { points, live } = page.steps[at] || {}, stood = at;
  coach.show(page.live.hint, live ? points?.control : '', () => { if (page && at === stood && live) done(''); });
  address('');
  trigger('live', { lesson: page.number });
}

const actions = { list, back, next, live, print: () => window.print(), forget() { progress.forget(); drawList(); } };
element.addEventListener('click', event => actions[event.target.closest('[data-lesson]')?.dataset.lesson]?.());

document.addEventListener('keydown', event => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !element.isConnected || !element.offsetParent || !page) return;
  if (event.target.closest?.(TYPING)) return;
  const key = event.key.toLowerCase(), choice = body.querySelectorAll('.sl-question:not(:has(.sl-reply[data-right="true"])) .sl-options');
  if (key === 'n') next();
  else if (key === 'b') back();
  else if (/^[1-9]$/.test(key) && choice.length) choice[0].children[Number(key) - 1]?.click();
  else return;
  event.preventDefault();
});

// ── the address: #lesson-3 opens the third ──
function address(hash) {
  if (location.hash === hash) return;
  try { history.replaceState(history.state, '', location.pathname + location.search + hash); } catch { /* no address here */ }
}
const here = () => (page ? '#lesson-' + page.number : '#lessons');
const asked = () => Number(/^#lesson-(\d{1,3})$/.exec(location.hash)?.[1]);
window.addEventListener('hashchange', () => { if (element.isConnected && asked()) open(asked()); });
// A lesson stands in the address while it is looked at, and no longer: the playground has an address of its own.
document.addEventListener('click', event => {
  if (!event.isTrusted) return;                            // a link that opens the tab has its own address
  if (event.target.closest?.('#playground-tab-button, #lab-tab-button')) address('');
  if (event.target.closest?.('#lessons-tab-button')) address(here());
}, true);

if (asked()) open(asked()); else list();
