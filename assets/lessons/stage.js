// The player beside the lesson: shows one of its runs, goes to a place in it, and lets a token glow.

function makeStage(root, caption) {
  const box = root.querySelector('.sl-player');
  box.dataset.opened = '1';                                // a lesson says when to play
  const player = makePlayer(box), { tape, playhead, rows } = player;
  const panel = root.querySelector('.sl-inspector');
  let shown = null, glowing = null, acted = null;

  // "2 scored" → steps of the tape; rounds are counted from 1.
  function steps(place) {
    const [round, what, which] = place.split(' ');
    if (round === 'start') return 0;
    const index = Number(round) - 1, told = tape.rounds[index];
    if (round === 'end' || !told) return tape.steps;
    const begin = tape.startOf(index);
    return { drafted: begin + told.drafts, scored: begin + told.drafts + 1, done: tape.startOf(index + 1) }[what]
      ?? begin + told.drafts + 1 + Number(which);
  }

  function show(name, { title, value }, place) {
    if (shown !== value) { player.read(value); shown = value; }
    caption.textContent = title;
    go(place);
  }
  function go(place) { calm(); playhead.move(steps(place), 'reader'); }

  function calm() { root.querySelectorAll('[data-glow]').forEach(node => node.removeAttribute('data-glow')); glowing = acted = null; }

  // ``locked`` is called once the learner has locked the token.
  function glow([round, index], locked) {
    glowing = tape.rounds[round]?.tokens[index];
    acted = locked;
    mark();
  }
  function mark() { if (glowing) rows.nodeOf(glowing)?.setAttribute('data-glow', ''); }
  function look() {
    if (!glowing || !acted) return;
    const node = rows.nodeOf(glowing);
    if (node?.getAttribute('aria-current') !== 'true' || panel.dataset.open !== 'locked') return;
    const told = acted;
    calm();
    told();
  }
  root.addEventListener('click', look);

  // On a phone the run stands below the text.
  function press() {
    const node = glowing && rows.nodeOf(glowing);
    node?.scrollIntoView({ block: 'nearest' });
    node?.click();
  }

  return { show, go, glow, calm, press };
}
