// Connects the parts of the player: the playhead moves rows, outputs, transport and inspector, and the reader moves it.
import { makeNotice } from '../lib/notice_box.js';
import { makeBranch } from './branch.js';
import { makeBranchLane } from './branch_lane.js';
import { makeInspection } from './inspection.js';
import { makeLabels } from './labels.js';
import { neighbourOf } from './neighbours.js';
import { makeOpening } from './opening.js';
import { makeOutputTabs } from './output_tabs.js';
import { makePlayback } from './playback.js';
import { makePlayhead } from './playhead.js';
import { makeReader } from './reader.js';
import { makeRoundsView } from './rounds_view.js';
import { firstBelow, navigateRows } from './row_navigation.js';
import { listenForShortcuts } from './shortcuts.js';
import { makeStrip } from './strip.js';
import { makeTimeline } from './timeline.js';
import { makeTooltip } from './tooltip.js';
import { makeTransport } from './transport.js';

const NOTHING = () => {};

// ``askAgain()``: rounds were lost on the way; ``runStarted()``: a run takes the place of the one on screen;
// ``onStatus(status)``: a sentence came; ``onPlace(place)``: the playhead moved; ``engine``: {fork, keep, drop, alone},
// what it does with a branch and with a run beside others; null where there is none.
export function makePlayer(
  root,
  { askAgain = NOTHING, runStarted = NOTHING, onStatus = NOTHING, onPlace = NOTHING, engine = null } = {},
) {
  const find = selector => root.querySelector(selector),
    frame = find('.sl-rows'),
    help = find('.sl-help');
  const calm = window.matchMedia('(prefers-reduced-motion: reduce)');
  const timeline = makeTimeline(),
    branch = makeBranch(timeline),
    playback = makePlayback(timeline, onMove);
  const playhead = makePlayhead(timeline, branch, playback),
    { stageNow, place } = playhead;
  const rows = makeRoundsView(frame, find('.sl-list'), timeline, branch),
    outputs = makeOutputTabs(root, timeline, branch);
  const tooltip = makeTooltip(find('.sl-tip'), frame),
    parts = { timeline, branch, playback, playhead, rows, outputs, tooltip };
  const lane = makeBranchLane(
    root,
    parts,
    { unlock: () => inspection.unlock(), moved: () => onMove('program') },
    engine,
  );
  const inspection = makeInspection(root, parts, lane.forkOf),
    labels = makeLabels(root, timeline, playhead);
  const transport = makeTransport(root, timeline, playback),
    strip = makeStrip(
      find('.sl-strip'),
      timeline,
      engine &&
        (() => {
          rows.focus();
          engine.alone();
        }),
    );
  const say = makeNotice(find('.sl-notice')),
    opening = makeOpening(root, parts, { labels, calm, moved: () => onMove('program') });

  // ── drawing ──
  // With reduced motion a round appears at once instead of growing.
  function shownSteps() {
    if (!calm.matches || !playback.playing) return playback.at;
    const { index, step } = place();
    return index >= 0 && step < timeline.rounds[index].steps ? timeline.startOf(index) : playback.at;
  }

  // ``by``: "reader", "clock", "pace", "news" or "program" moved or changed it.
  function onMove(by) {
    const steps = shownSteps(),
      at = timeline.locate(steps);
    if (by === 'reader') {
      opening.cancel();
      rows.follow();
    }
    rows.show(steps);
    outputs.show(at);
    inspection.follow(at, by === 'reader');
    if (by === 'reader' || by === 'pace') tooltip.hide();
    transport.show(at);
    strip.show(place());
    labels.showEnd();
    find('.sl-empty').hidden = at.index >= 0;
    root.dataset.rounds = timeline.rounds.length;
    tellPlace();
  }

  const tellPlace = () => onPlace({ timeline, index: place().index, stageNow });

  // ── input from the reader ──
  const actions = {
    play: () => playback.toggle(),
    start: playback.toStart,
    end: playback.toEnd,
    'round-back': () => playback.round(-1),
    'round-on': () => playback.round(1),
    'token-back': () => playback.step(-1),
    'token-on': () => playback.step(1),
    help: () => (help.open ? help.close() : help.showModal()),
    'help-close': () => help.close(),
    close() {
      inspection.unlock();
      rows.focus();
    },
    'output-run': () => outputs.choose('run'),
    'output-branch': () => outputs.choose('branch'),
  };
  function tokenAt(node) {
    const closestPart = kind => node.closest(`.sl-list .sl-${kind}`);
    return rows.tokenOf(closestPart('token') || closestPart('folded')?.firstChild);
  }
  // The list may move on between press and release: the token pressed counts.
  let press;
  root.addEventListener('pointerdown', ({ target, x, y }) => {
    press = { token: tokenAt(target), x, y };
  });
  root.addEventListener('click', ({ target, detail, x, y }) => {
    const action = target.closest('[data-do]')?.dataset.do;
    if (action) return actions[action]();
    const isStill = detail && Math.hypot(x - press?.x, y - press?.y) < 5;
    const token = tokenAt(target) ?? (isStill && press.token);
    if (token) inspection.toggle(token);
  });
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
  navigateRows(frame, {
    tokenOf: rows.tokenOf,
    hide: tooltip.hide,
    leave: actions.close,
    entrance: () => frame.querySelector('[aria-current]') || firstBelow(frame, frame.getBoundingClientRect().top),
    neighbour(node, key) {
      const next = neighbourOf(rows.tokenOf(node), key, timeline, branch, rows.hides);
      return next && stageNow(next) !== 'hidden' ? rows.nodeOf(next) : null;
    },
    preview(node) {
      const token = rows.tokenOf(node);
      if (inspection.isLocked(token)) tooltip.hide();
      else tooltip.show(node, token, stageNow(token), timeline.about.greedy);
    },
  });

  // ── lines from the server ──
  const read = makeReader(timeline, branch, {
    started: beginRun,
    arrived: showArrivals,
    missing: askAgain,
    labelled: labels.show,
    branched: lane.rebuild,
    branchEnded: lane.showHeads,
    about() {
      labels.show();
      lane.showHeads();
    },
    finished() {
      labels.show();
      playback.settle();
    },
  });

  function beginRun() {
    opening.cancel();
    timeline.clear();
    branch.clear();
    for (const part of [strip, rows, outputs, transport, playback]) part.reset();
    lane.showHeads();
    inspection.unlock();
    onMove('program'); // clears the place and the counts of the run before
    labels.show();
    opening.endCaptionsOfAnother();
    runStarted();
  }

  function showArrivals({ hasRounds, hasBranchRounds, numbers, status }) {
    if (hasBranchRounds && !hasRounds) onMove('news');
    if (numbers) strip.read(numbers);
    if (hasRounds || (timeline.ended && numbers)) showNews(hasRounds);
    else if (numbers) strip.show(place());
    if (status) {
      say(status);
      root.dataset.notice = status.kind;
      onStatus(status);
    }
    // The run before does not play on below an error about another.
    if (status?.kind === 'error' && timeline.about.recorded && playback.playing) playback.toggle();
  }

  function showNews(hasRounds) {
    const { recorded, origin } = timeline.about;
    if (recorded && !origin && hasRounds && !root.dataset.told) return opening.open(); // plays from its first round
    if (hasRounds && playback.at === 0 && !playback.playing) {
      playback.settle();
      playback.follow();
    } else playback.arrivals();
    labels.show();
  }

  outputs.choose('run');
  onMove('program');
  labels.show();
  const toRound = index => playback.move(timeline.startOf(index + 1), 'reader');
  return { read, playback, timeline, rows, lock: inspection.lockByButton, toRound, tellPlace };
}
