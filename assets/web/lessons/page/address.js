// Writes the open lesson into the page's address, and opens the lesson that it names: #lesson-many_users, and the
// numbers of the edition before the lessons were put in another order, so that its links still open. With -guess-2
// after it, it is the second text of the lesson's guessing game. #minute is the page before the lessons, #practice-417-tree
// the exercise of that name with the numbers of seed 417, and #rule is “Write the rule yourself”.
import { closest } from '../../lib/dom.js';

const NUMBERED = [
  'in_five_minutes',
  'memory_wall',
  'draft_then_verify',
  'accept_reject_resample',
  'is_it_lossless',
  'acceptance_tau_speedup',
  'how_many_drafts',
  'easy_and_hard_text',
  'why_is_mine_slower',
  'who_guesses',
  'token_trees',
  'two_models_one_memory',
  'many_users',
  'one_token_differs',
  'turn_it_on',
  'unknown_runs',
];

// ``isHere()``: the lessons are on the page; ``current()``: the address of the open page, after its #; ``open(name,
// text)``: opens a lesson, at the game with that text if there is one; ``list()``: opens the list; ``practise(seed,
// name)``: opens an exercise; ``writeRule()``: the page of the rule; ``element``: has the links to all these. Returns functions that write the address or clear
// it, and that open what it names, if anything.
export function makeAddress(element, { isHere, current, open, list, practise, writeRule }) {
  const isOurs = hash => /^#(lesson|minute|practice|rule)/.test(hash);

  function write(hash) {
    if (location.hash === hash) return;
    const address = location.pathname + location.search + hash;
    try {
      if (isOurs(hash) === isOurs(location.hash)) history.replaceState(history.state, '', address);
      else history.pushState(history.state, '', address); // another tab, from which Back returns
    } catch {
      /* a page without an address */
    }
  }
  const writeCurrent = () => write(`#${current()}`);
  const clear = () => write('');

  function openNamed() {
    if (location.hash === '#lessons') {
      list();
      return true;
    }
    if (location.hash === '#minute') {
      list();
      element.querySelector('#sl-minute').open = true;
      return true;
    }
    if (location.hash === '#rule') {
      writeRule();
      return true;
    }
    const exercise = /^#practice(?:-(\d{1,4}))?(?:-(\w{1,40}))?$/.exec(location.hash);
    if (exercise) {
      practise(Number(exercise[1]), exercise[2]);
      return true;
    }
    const [, name, text] = /^#lesson-(\w{1,60})(?:-guess-(\d))?$/.exec(location.hash) || [];
    if (name) open(NUMBERED[name] ?? name, Number(text));
    return Boolean(name);
  }

  // Gradio 6.31 sets a base URL without the query, so the browser itself would load the
  // page again, and a run would be lost.
  element.addEventListener('click', event => {
    const link = event.target.closest('a[href^="#lesson-"], a[href^="#practice"], a[href="#rule"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    location.hash = link.hash;
  });
  window.addEventListener('popstate', () => {
    if (isHere()) requestAnimationFrame(openNamed); // Back first restores how far the window was scrolled
  });
  // The address names the lesson only while its tab is open, because the playground has an address of its own.
  document.addEventListener(
    'click',
    event => {
      if (!event.isTrusted) return; // a link that opens the tab has its own address
      if (closest(event.target, '.sl-minute-tab')) clear(); // the other tabs write their own
      if (closest(event.target, '#lessons-tab-button')) writeCurrent();
    },
    true,
  );
  return { writeCurrent, clear, openNamed };
}
