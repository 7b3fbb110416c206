// Connects the parts of the player: timeline and playback move rows, output and inspector.

const SECONDS_TO_READ = 2.8;     // the captions, before the recorded run plays on

// ``askAgain()``: rounds were lost on the way; ``runStarted()``: a run takes the place of the one on screen;
// ``heard(status)``: a sentence came; ``placed(place)``: the playhead moved; ``engine``: {fork, keep, drop, alone}, what it does with a branch
// and with a run beside others; null where there is none.
function makePlayer(root, { askAgain = () => {}, runStarted = () => {}, heard = () => {}, placed = () => {}, engine = null } = {}) {
  const find = selector => root.querySelector(selector);
  const frame = find('.sl-rows'), scrub = find('.sl-scrub'), panel = find('.sl-inspector'), help = find('.sl-help');
  const calm = window.matchMedia('(prefers-reduced-motion: reduce)');
  const timeline = makeTimeline(), branch = makeBranch(timeline), laneOf = token => (token.branch && token !== branch.forced ? branch.timeline : timeline);
  const rows = makeRoundsView(frame, find('.sl-list'), timeline, branch), output = makeOutputView(find('.sl-text'), timeline, find('.sl-text-box'));
  const branchOutput = makeOutputView(find('.sl-branch-text'), branch.timeline, find('.sl-text-box'));
  const heads = makeLaneHeads(find('.sl-lane-heads'), engine && { keep: engine.keep, drop: () => { engine.drop(); endBranch(); } });
  const inspector = makeInspector(find('.sl-inspected-token'), lockByButton, find('.sl-legend'), forkOf), tooltip = makeTooltip(find('.sl-tip'), frame);
  const playback = makePlayback(timeline, moved), strip = makeStrip(find('.sl-strip'), timeline, engine?.alone), say = makeStatus(find('.sl-notice'));
  let locked = null, opening = false, sight = false, announced = -1, announcedAt = 0;

  // ── drawing ──
  const place = () => timeline.locate(playback.at);
  const stageNow = token => {
    if (token.branch) return branch.stage(token, place());
    const { index, step } = place();
    if (token.round > index) return 'hidden';
    return stageOf(timeline.rounds[token.round], token, token.round < index ? Infinity : step);
  };

  // With reduced motion a round appears at once instead of growing.
  function shownSteps() {
    if (!calm.matches || !playback.playing) return playback.at;
    const { index, step } = place();
    return index >= 0 && step < timeline.rounds[index].steps ? timeline.startOf(index) : playback.at;
  }

  function moved(by) {
    const steps = shownSteps(), at = timeline.locate(steps);
    if (by === 'reader') { opening = false; rows.follow(); }
    rows.show(steps);
    output.show(at);
    if (branch.on) showBranchText(at);
    if (by === 'reader') stepped(at);
    else if (locked) { if (stageNow(locked) !== inspector.stage) inspect(locked); }
    else if (inspector.stage && playback.playing) unlock();
    if (!inspector.stage) inspector.clear(lastRejected());
    if (by === 'reader' || by === 'pace') tooltip.hide();
    announce(at);
    transport(at);
    strip.show(timeline.locate(playback.at));
    ending();
    find('.sl-empty').hidden = at.index >= 0;
    root.dataset.rounds = timeline.rounds.length;
    tellPlace();
  }

  const tellPlace = () => placed({ timeline, index: place().index, stageNow });

  // Shows how the run ended, once the position is at its end.
  function ending() {
    const { ended, compared } = timeline, words = [ended && endSentence(ended), compared && comparedSentence(compared)];
    const text = ended && playback.at >= timeline.steps ? words.filter(Boolean).reverse().join(' ') : '';
    setText(find('.sl-compared'), text);
    find('.sl-compared').title = text;
  }

  const words = find('.sl-place'), pace = find('.sl-pace'), playButton = find('[data-do="play"]');

  pace.append(...PACES.map(rate => make('option', '', paceSentence(rate), { value: rate })));

  function transport({ index }) {
    const rounds = timeline.rounds.length, where = rounds ? `Round ${index + 1} of ${rounds}` : 'No rounds yet';
    setText(words, playback.live ? `${where}, live` : where);
    scrub.max = timeline.steps;
    scrub.value = playback.at;
    scrub.setAttribute('aria-valuetext', where);
    const moving = playback.playing || playback.live;
    if (playButton.dataset.moving !== String(moving)) {
      playButton.dataset.moving = moving;
      playButton.setAttribute('aria-label', moving ? 'Pause' : 'Play');
      playButton.title = moving ? 'Pause (Space)' : 'Play (Space)';
    }
    pace.value = playback.pace;
  }

  // Announces each round to screen readers, at most one a second.
  function announce({ index, step }) {
    const done = index >= 0 && step < timeline.rounds[index]?.steps ? index - 1 : index;
    if (done === announced || done < 0 || performance.now() - announcedAt < 1000) return;
    announced = done;
    announcedAt = performance.now();
    setText(find('.sl-live'), roundSentence(timeline.rounds[done]));
  }

  function labels() {
    const { about, ended } = timeline;
    const kind = about.origin ? 'file' : about.recorded ? 'recorded' : ended ? 'yours' : timeline.rounds.length || about.prompt ? 'running' : '';
    const chip = find('.sl-source');
    chip.dataset.kind = kind;
    setText(chip, { file: 'From a file', recorded: 'Recorded run', yours: 'Your run', running: 'Running now' }[kind] || '');
    setText(find('.sl-about'), about.words || '');
    find('.sl-about').title = [about.words, about.why].filter(Boolean).join('. ');
    for (const badge of root.querySelectorAll('.sl-lossy')) { badge.hidden = !about.lossy; badge.title = about.lossy || ''; }
    root.toggleAttribute('data-lossy', Boolean(about.lossy));
    setText(find('.sl-origin'), about.origin ? `Recorded: ${about.origin}` : '');
    setText(find('.sl-asked'), about.prompt || '');
    root.dataset.kind = kind;
    root.dataset.rule = about.block ? 'block' : '';
    ending();
  }

  // ── inspecting ──
  function inspect(token) {
    const stage = stageNow(token);
    if (stage === 'hidden') return unlock();
    inspector.show(token, laneOf(token).rounds[token.round], timeline.about, stage);
  }

  function lock(token) {
    locked = token;
    rows.mark(token);
    inspect(token);
    markText(token);
    panel.dataset.open = root.dataset.chosen = 'locked';
    panel.scrollTop = 0;                                  // on a phone it scrolls
    tooltip.hide();
    keepAbove(rows.nodeOf(token));
  }

  // The button that was pressed is gone, so the focus goes to the one that closes.
  function lockByButton(token) {
    lock(token);
    find('.sl-close').focus({ preventScroll: true });
  }

  // Keeps the token in sight above the inspector, which on a phone covers the lower part.
  function keepAbove(node) {
    if (!node || getComputedStyle(panel).position !== 'fixed') return;
    const at = node.getBoundingClientRect(), hidden = at.bottom + 12 - panel.getBoundingClientRect().top;
    if (hidden > 0 || at.top < 0) window.scrollBy(0, hidden);
  }

  function unlock() {
    locked = null;
    rows.mark(null);
    markText(null);
    panel.dataset.open = root.dataset.chosen = '';
    inspector.clear(lastRejected());
  }

  // The last draft rejected so far; null while playing, because it would change all the time.
  function lastRejected() {
    if (playback.playing || playback.live) return null;
    for (let { index } = place(); index >= 0; index--) {
      const rejected = timeline.rounds[index].tokens.find(token => token.status === 'rejected' && stageNow(token) === 'rejected');
      if (rejected) return rejected;
    }
    return null;
  }

  // A step by hand inspects the token of that step.
  function stepped({ index, step }) {
    if (locked) unlock();
    if (index < 0 || playback.live) return inspector.clear(lastRejected());
    const token = currentOf(timeline.rounds[index], step);
    rows.mark(token);
    markText(token);
    inspect(token);
  }

  const markText = token => (token?.branch ? branchOutput : output).mark(token === branch.forced ? null : token);

  // ── input from the reader ──
  const actions = {
    play: () => playback.toggle(), start: playback.toStart, end: playback.toEnd,
    'round-back': () => playback.round(-1), 'round-on': () => playback.round(1),
    'token-back': () => playback.step(-1), 'token-on': () => playback.step(1),
    help: () => (help.open ? help.close() : help.showModal()), 'help-close': () => help.close(),
    close: () => { unlock(); frame.focus({ preventScroll: true }); },
    'output-run': () => showOutput('run'), 'output-branch': () => showOutput('branch'),
  };
  root.addEventListener('click', event => {
    const act = event.target.closest('[data-do]')?.dataset.do;
    if (act) return actions[act]();
    const folded = event.target.closest?.('.sl-list .sl-folded'), chip = event.target.closest?.('.sl-list .sl-token');
    const token = rows.tokenOf(chip || folded?.firstChild);
    if (token) { if (token === locked) unlock(); else lock(token); }
  });
  scrub.addEventListener('input', () => playback.move(Number(scrub.value), 'reader'));
  pace.addEventListener('input', () => { playback.pace = Number(pace.value); });
  listenForShortcuts(root, {
    ' ': actions.play, arrowleft: actions['round-back'], arrowright: actions['round-on'], home: actions.start,
    end: actions.end, j: actions['token-back'], k: actions['token-on'], '?': actions.help,
    escape() {
      const isLeaving = locked && panel.contains(document.activeElement);
      if (locked) unlock();
      if (isLeaving) frame.focus({ preventScroll: true });
      tooltip.hide();
    },
  });
  navigateRows(frame, {
    tokenOf: rows.tokenOf, neighbour, hide: tooltip.hide, leave: actions.close,
    entrance: () => frame.querySelector('[aria-current]') || firstBelow(frame, frame.getBoundingClientRect().top),
    preview(node) {
      const token = rows.tokenOf(node);
      if (token !== locked) tooltip.show(node, token, stageNow(token), timeline.about.greedy); else tooltip.hide();
    },
  });

  function neighbour(node, key) {
    const token = rows.tokenOf(node), next = branch.on ? beside(token, key) : inRun(token, key);
    return next && stageNow(next) !== 'hidden' ? rows.nodeOf(next) : null;
  }

  function inRun(token, key) {
    const { tokens } = timeline.rounds[token.round], isShown = other => !rows.hides(other), { index } = token;
    const round = step => timeline.rounds[token.round + step]?.tokens;
    return key === 'ArrowRight' ? tokens.slice(index + 1).find(isShown) || round(1)?.[0]
      : key === 'ArrowLeft' ? tokens.slice(0, index).findLast(isShown) || round(-1)?.at(-1) : round(key === 'ArrowDown' ? 1 : -1)?.[0];
  }

  // With two lanes: along a row through both cells, or up and down within the lane.
  function beside(token, key) {
    const row = branch.rowOf(token), lanes = number => [timeline.rounds[number]?.tokens || [], branch.ownIn(number)];
    const along = [row - 1, row, row + 1].flatMap(number => lanes(number).flat()).filter(other => !rows.hides(other)), at = along.indexOf(token);
    if (key === 'ArrowRight' || key === 'ArrowLeft') return along[at + (key === 'ArrowRight' ? 1 : -1)];
    return lanes(row + (key === 'ArrowDown' ? 1 : -1))[token.branch ? 1 : 0][0];
  }

  // ── a branch ──
  // What forces a candidate in a token's place; only the output's own places can be gone on from.
  function forkOf(token) {
    if (!engine || !timeline.ended) return null;
    if (token.branch) return branch.ended ? 'Keep the branch before you force a token in it.' : null;
    if (token.status === 'discarded') return null;
    return id => { unlock(); engine.fork(token.position, id); frame.focus({ preventScroll: true }); };
  }

  function beginBranch() {
    showOutput(branch.on ? 'branch' : 'run');
    branchOutput.reset();
    rows.rebuild();
    showHeads();
    if (!branch.on) return moved('clock');
    endCaptions(root);
    playback.move(timeline.steps, 'reader');
    unlock();
    rows.scrollTo(branch.from);
  }

  function endBranch() {
    if (!branch.on) return;
    unlock();
    branch.clear();
    beginBranch();
    frame.focus({ preventScroll: true });
  }

  function showHeads() {
    heads.show(branch, timeline.about);
    root.toggleAttribute('data-branch', branch.on);
  }

  function showOutput(which) {
    root.dataset.output = which;
    for (const name of ['run', 'branch']) find(`[data-do="output-${name}"]`).setAttribute('aria-pressed', name === which);
  }

  function showBranchText(at) {
    const isBefore = branch.stage(branch.forced, at) === 'hidden';
    branchOutput.show(branch.placeOf(at), isBefore ? output.lengthAt(at) : Infinity);
  }

  // ── lines from the server ──
  let missing = false, over = false, numbers = null, status = null;   // of which only the last one of a value counts
  const readValue = makeNdjsonReader(started, {
    about(line) { timeline.about = line; if (line.prefix && !timeline.rounds.length) timeline.begin(line.prefix); labels(); showHeads(); },
    round(line) {
      if (line.index > timeline.rounds.length) missing = true;
      if (line.index === timeline.rounds.length) { timeline.add(line); added = true; }
    },
    finish(line) {
      if (timeline.ended) return;
      timeline.ended = line;
      labels();
      playback.settle();
      if (!timeline.about.recorded) setText(find('.sl-live'), endSentence(line));
    },
    chosen({ words, why }) { Object.assign(timeline.about, { words, why }); labels(); },
    compared(line) { timeline.compared = line; labels(); },
    branch(line) { if (branch.begin(line)) beginBranch(); },
    branch_round(line) {
      if (branch.on && line.index > branch.timeline.rounds.length) missing = true;
      if (branch.add(line)) grown = true;
    },
    branch_finish(line) { if (branch.on) { branch.ended = line; grown = true; showHeads(); } },
    numbers(line) { numbers = line; },
    status(line) { status = line; },
    over() { over = true; },
  }, arrived);

  function started() {
    missing = over = opening = false;
    announced = -1;
    timeline.clear();
    branch.clear();
    strip.clear();
    rows.reset();
    output.reset();
    branchOutput.reset();
    showOutput('run');
    showHeads();
    playback.reset();
    unlock();
    moved('clock');                                       // clears the place and the counts of the run before
    labels();
    endCaptionsOfAnother();
    runStarted();
  }

  // The first run of a visitor ends the captions for good.
  function endCaptionsOfAnother() { if (root.dataset.played && !wasSeen()) endCaptions(root); }

  let added = false, grown = false;
  function arrived() {
    const news = added;
    if (grown && !news) moved('news');
    added = grown = false;
    if (numbers) strip.read(numbers);
    if (news || (timeline.ended && numbers)) showNews(news); else if (numbers) strip.show(timeline.locate(playback.at));
    if (status) { say(status); heard(status); }
    numbers = status = null;
    if (over && missing) { missing = false; askAgain(); }
  }

  function showNews(added) {
    const { recorded, origin } = timeline.about;
    if (recorded && !origin && added && !root.dataset.told) return open();       // plays from its first round
    if (added && playback.at === 0 && !playback.playing) { playback.settle(); playback.follow(); } else playback.arrivals();
    labels();
  }

  // A recorded run plays when it comes into sight: the first slowly, others as fast as they ran. With reduced motion it is
  // shown to its end instead.
  function open() {
    const isFirst = !root.dataset.played, explained = isFirst && roundToExplain(timeline);
    playback.settle(isFirst ? undefined : 1);
    root.dataset.played = '1';
    labels();
    playback.move(calm.matches ? timeline.steps : explained ? timeline.startOf(explained.index + 1) : 0, 'clock');
    if (explained && !wasSeen()) explain(explained);
    if (calm.matches) return;
    opening = true;
    moved('clock');
    setTimeout(begin, explained ? SECONDS_TO_READ * 1000 : 0);
  }
  function explain(round) {
    const row = rows.nodeOf(round.tokens[0])?.closest('.sl-row');
    if (row) showCaptions(root, row, () => rows.follow());
  }
  function begin() { if (opening && sight) { opening = false; rows.follow(); playback.play(); } }
  new IntersectionObserver(entries => { sight = entries.at(-1).isIntersecting; if (!root.querySelector('.sl-captions')) begin(); }).observe(frame);

  showOutput('run');
  moved('clock');
  labels();
  const toRound = index => playback.move(timeline.startOf(index + 1), 'reader');
  return { read: value => { if (value) readValue(value); }, playback, timeline, rows, lock: lockByButton, toRound, tellPlace };
}
