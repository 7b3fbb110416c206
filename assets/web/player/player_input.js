// Listens to the reader: the buttons, the keys, and a press or the arrow keys on a token.
/** @import { Parts } from './parts.js' */
/** @import { Token } from './rounds.d.ts' */
import { closest, makeFind } from '../lib/dom.js';
import { listenForShortcuts } from './key_listener.js';
import { neighbourOf } from './neighbours.js';
import { firstBelow, navigateRows } from './row_navigation.js';

const STILL = 5; // px that a finger may move during a press

/** @param {HTMLElement} root @param {Parts} parts */
export function listenToReader(root, parts) {
  const actions = makeActions(root, parts);
  listenForPresses(root, parts, actions);
  listenForKeys(root, parts, actions);
  moveAmongTokens(root, parts, actions.close);
}

/** What the buttons do, by their data-do. @param {HTMLElement} root @param {Parts} parts */
function makeActions(root, { playback, inspection, rows, outputs }) {
  /** @type {HTMLDialogElement} */
  const help = root.querySelector('.sl-help');
  help.addEventListener('keydown', event => {
    if (event.key !== '?') return;
    event.preventDefault();
    help.close();
  });
  return {
    play: playback.toggle,
    start: playback.toStart,
    end: playback.toEnd,
    'round-back': () => playback.round(-1),
    'round-on': () => playback.round(1),
    'token-back': () => playback.step(-1),
    'token-on': () => playback.step(1),
    help: () => help.showModal(),
    'help-close': () => help.close(),
    close() {
      inspection.unlock();
      rows.focus();
    },
    'output-run': () => outputs.choose('run'),
    'output-branch': () => outputs.choose('branch'),
  };
}

/** @param {HTMLElement} root @param {Parts} parts @param {Record<string, () => void>} actions */
function listenForPresses(root, { rows, inspection }, actions) {
  /** @param {EventTarget} target */
  const tokenAt = target =>
    rows.tokenOf(closest(target, '.sl-list .sl-token') || closest(target, '.sl-list .sl-folded')?.firstChild);
  /** The list may move on between press and release: the token pressed counts.
   * @type {{ token?: Token, x?: number, y?: number }} */
  let press = {};
  root.addEventListener('pointerdown', ({ target, x, y }) => {
    press = { token: tokenAt(target), x, y };
  });
  root.addEventListener('click', ({ target, detail, x, y }) => {
    const action = closest(target, '[data-do]')?.dataset.do;
    if (action) return actions[action]();
    const isStill = detail && Math.hypot(x - press.x, y - press.y) < STILL;
    const token = tokenAt(target) ?? (isStill && press.token);
    if (token) inspection.toggle(token);
  });
}

/** @param {HTMLElement} root @param {Parts} parts @param {ReturnType<typeof makeActions>} actions */
function listenForKeys(root, { rows, inspection, tooltip }, actions) {
  listenForShortcuts(root, {
    ' ': actions.play,
    arrowleft: actions['round-back'],
    arrowright: actions['round-on'],
    home: actions.start,
    end: actions.end,
    j: actions['token-back'],
    k: actions['token-on'],
    '?': actions.help,
    escape() {
      if (inspection.escape()) rows.focus();
      tooltip.hide();
    },
  });
}

/** @param {HTMLElement} root @param {Parts} parts @param {() => void} leave */
function moveAmongTokens(root, { timeline, branch, playhead, rows, inspection, tooltip }, leave) {
  const frame = makeFind(root)('.sl-rows');
  navigateRows(frame, {
    tokenOf: rows.tokenOf,
    hide: tooltip.hide,
    leave,
    entrance: () => frame.querySelector('[aria-current]') || firstBelow(frame, frame.getBoundingClientRect().top),
    neighbour(node, key) {
      const next = neighbourOf(rows.tokenOf(node), key, timeline, branch, rows.hides);
      return next && playhead.stageNow(next) !== 'hidden' ? rows.nodeOf(next) : null;
    },
    preview(node) {
      const token = rows.tokenOf(node);
      if (inspection.isLocked(token)) tooltip.hide();
      else tooltip.show(node, token, playhead.stageNow(token), timeline.about.greedy);
    },
  });
}
