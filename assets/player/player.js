// The player, wired together: tape and playhead on one side, rows, output and inspector on the other.

// ``missing``: rounds were lost on the way; ``begun``: a run takes the place of what is on screen.
function makePlayer(root, { missing = () => {}, begun = () => {} } = {}) {
  const find = selector => root.querySelector(selector);
  const frame = find('.sl-rows'), scrub = find('.sl-scrub'), panel = find('.sl-inspector'), help = find('.sl-help');
  const calm = window.matchMedia('(prefers-reduced-motion: reduce)');
  const tape = makeTape();
  const rows = makeRows(frame, find('.sl-list'), tape), output = makeOutput(find('.sl-text'), tape);
  const inspector = makeInspector(find('.sl-inspected-token'), lock), tip = makeTip(find('.sl-tip'), frame);
  const playhead = makePlayhead(tape, moved);
  let locked = null, opening = false, sight = false, said = -1, saidAt = 0;

  // ── drawing ──
  const place = () => tape.locate(playhead.at);
  const stageNow = token => {
    const { index, step } = place();
    if (token.round > index) return 'hidden';
    return stageOf(tape.rounds[token.round], token, token.round < index ? Infinity : step);
  };

  // With reduced motion a round appears at once instead of growing.
  function toldSteps() {
    if (!calm.matches || !playhead.playing) return playhead.at;
    const { index, step } = place();
    return index >= 0 && step < tape.rounds[index].steps ? tape.startOf(index) : playhead.at;
  }

  function moved(by) {
    const steps = toldSteps(), at = tape.locate(steps);
    if (by === 'reader') { opening = false; rows.follow(); }
    rows.show(steps);
    output.show(at);
    if (by === 'reader') stepped(at);
    else if (locked) { if (stageNow(locked) !== inspector.stage) inspect(locked); }
    else if (inspector.stage && playhead.playing) unlock();
    if (!inspector.stage) inspector.clear(refused());
    if (by === 'reader' || by === 'pace') tip.hide();
    announce(at);
    transport(at);
    ending();
    root.dataset.rounds = tape.rounds.length;
  }

  // How it ended is no news before the story is there.
  function ending() {
    const { ended, compared } = tape, words = [ended && endSentence(ended), compared && comparedSentence(compared)];
    put(find('.sl-compared'), ended && playhead.at >= tape.steps ? words.filter(Boolean).join(' ') : '');
  }

  const words = find('.sl-place'), pace = find('.sl-pace'), paceWords = find('.sl-pace-words'), playButton = find('[data-do="play"]');
  const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  function transport({ index }) {
    const rounds = tape.rounds.length, where = rounds ? `Round ${index + 1} of ${rounds}` : 'No rounds yet';
    put(words, playhead.live ? `${where}, live` : where);
    scrub.max = tape.steps;
    scrub.value = playhead.at;
    scrub.setAttribute('aria-valuetext', where);
    scrub.style.setProperty('--done', tape.steps ? playhead.at / tape.steps : 0);
    const moving = playhead.playing || playhead.live;
    if (playButton.dataset.moving !== String(moving)) {
      playButton.dataset.moving = moving;
      playButton.setAttribute('aria-label', moving ? 'Pause' : 'Play');
      playButton.title = moving ? 'Pause (Space)' : 'Play (Space)';
    }
    pace.value = PACES.indexOf(playhead.pace);
    const sentence = paceSentence(playhead.pace);
    put(paceWords, playhead.live ? 'live, as it is made' : sentence);
    pace.setAttribute('aria-valuetext', sentence);
  }

  // A summary per round, and never more than one a second.
  function announce({ index, step }) {
    const done = index >= 0 && step < tape.rounds[index]?.steps ? index - 1 : index;
    if (done === said || done < 0 || performance.now() - saidAt < 1000) return;
    said = done;
    saidAt = performance.now();
    put(find('.sl-live'), roundSentence(tape.rounds[done]));
  }

  function labels() {
    const { about, ended } = tape;
    const kind = about.origin ? 'file' : about.recorded ? 'recorded' : ended ? 'yours' : tape.rounds.length || about.prompt ? 'running' : '';
    const chip = find('.sl-source');
    chip.dataset.kind = kind;
    put(chip, { file: 'From a file', recorded: 'Recorded run', yours: 'Your run', running: 'Running now' }[kind] || '');
    put(find('.sl-about'), about.words || '');
    put(find('.sl-origin'), about.origin ? `Recorded: ${about.origin}` : '');
    put(find('.sl-asked'), about.prompt ? `Prompt: ${about.prompt}` : '');
    ending();
    find('.sl-empty').hidden = Boolean(about.prompt || tape.rounds.length);
  }

  // ── inspecting ──
  function inspect(token) {
    const stage = stageNow(token);
    if (stage === 'hidden') return unlock();
    inspector.show(token, tape.rounds[token.round], tape.about, stage);
  }

  function lock(token) {
    locked = token;
    rows.mark(token);
    inspect(token);
    output.mark(token);
    panel.dataset.open = 'locked';
    panel.scrollTop = 0;                                  // on a phone it scrolls, and a verdict is read from its beginning
    tip.hide();
    keepAbove(rows.nodeOf(token));
  }

  // On a phone the inspector comes up from below; the token stays above it, and in sight.
  function keepAbove(node) {
    if (!node || getComputedStyle(panel).position !== 'fixed') return;
    const at = node.getBoundingClientRect(), hidden = at.bottom + 12 - panel.getBoundingClientRect().top;
    if (hidden > 0 || at.top < 0) window.scrollBy(0, hidden);
  }

  function unlock() {
    locked = null;
    rows.mark(null);
    output.mark(null);
    panel.dataset.open = '';
    inspector.clear(refused());
  }

  // The last draft refused so far; none while the story moves, for then it would be another one all the time.
  function refused() {
    if (playhead.playing || playhead.live) return null;
    for (let { index } = place(); index >= 0; index--) {
      const found = tape.rounds[index].tokens.find(token => token.status === 'rejected' && stageNow(token) === 'rejected');
      if (found) return found;
    }
    return null;
  }

  // Who steps by hand sees the numbers of what the step was about.
  function stepped({ index, step }) {
    if (locked) unlock();
    if (index < 0 || playhead.live) return inspector.clear(refused());
    const token = currentOf(tape.rounds[index], step);
    rows.mark(token);
    output.mark(token);
    inspect(token);
  }

  // ── what the reader does ──
  const actions = {
    play: () => playhead.toggle(), start: playhead.toStart, end: playhead.toEnd,
    'round-back': () => playhead.round(-1), 'round-on': () => playhead.round(1),
    'token-back': () => playhead.step(-1), 'token-on': () => playhead.step(1),
    help: () => (help.open ? help.close() : help.showModal()), 'help-close': () => help.close(),
    close: () => { unlock(); frame.focus({ preventScroll: true }); },
  };
  root.addEventListener('click', event => {
    const act = event.target.closest('[data-do]')?.dataset.do;
    if (act) return actions[act]();
    const token = rows.tokenOf(event.target.closest?.('.sl-list .sl-token'));
    if (token) { if (token === locked) unlock(); else lock(token); }
  });
  scrub.addEventListener('input', () => playhead.move(Number(scrub.value), 'reader'));
  pace.addEventListener('input', () => { playhead.pace = PACES[pace.value]; });
  listenForKeys(root, {
    ' ': actions.play, arrowleft: actions['round-back'], arrowright: actions['round-on'], home: actions.start,
    end: actions.end, j: actions['token-back'], k: actions['token-on'], '?': actions.help,
    escape: () => { if (locked) unlock(); tip.hide(); },
  });
  walkRows(frame, rows, tape, { stageNow, preview, hide: tip.hide, leave: () => actions.close() });

  function preview(node) {
    const token = rows.tokenOf(node);
    if (token && token !== locked) tip.show(node, token, stageNow(token), tape.about.greedy); else tip.hide();
  }

  // ── what the server sends ──
  const read = makeFeed(tape, {
    started() {
      rows.reset();
      output.reset();
      playhead.reset();
      unlock();
      opening = false;
      said = -1;
      moved('clock');                                     // nothing of the run before stays, its place and counts included
      labels();
      begun();
    },
    told: labels,
    finished() {
      playhead.settle();
      if (!tape.about.recorded) put(find('.sl-live'), endSentence(tape.ended));
    },
    lost: missing,
    arrived(added) {
      if (!added && !tape.ended) return;
      if (tape.about.recorded && !root.dataset.opened) return open();
      root.dataset.opened = '1';
      if (added && playhead.at === 0 && !playhead.playing) { playhead.settle(); playhead.follow(); } else playhead.arrivals();
      labels();
    },
  });

  // The recorded run plays once it is in sight; with reduced motion it waits for the reader, complete.
  function open() {
    root.dataset.opened = '1';
    playhead.settle();
    labels();
    if (calm.matches) return playhead.move(tape.steps, 'clock');
    opening = true;
    moved('clock');
    begin();
  }
  function begin() { if (opening && sight) { opening = false; playhead.play(); } }
  new IntersectionObserver(entries => { sight = entries.at(-1).isIntersecting; begin(); }).observe(frame);

  moved('clock');
  labels();
  return { read: value => { if (value) read(value); }, playhead, tape, rows };
}
