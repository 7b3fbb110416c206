// Controls the player beside the lesson: shows one of its runs, goes to a place in it, makes a token glow.
import { make, makeFind } from '../../lib/dom.js';
import { makePlayer } from '../../player/player.js';

/** @param {HTMLElement} root @param {HTMLElement} caption */
export function makeLessonPlayer(root, caption) {
  const box = makeFind(root)('.sl-player');
  box.dataset.told = 'lesson'; // only the lesson starts it
  const player = makePlayer(box);
  const { timeline, playback, rows } = player;
  const panel = makeFind(root)('.sl-inspector');
  panel.append(make('p', 'sl-guess-first', 'Make your guess first. Then you can see each token’s numbers here.'));
  let shown = null; // the value of the run
  /** @type {import('../../player/rounds.d.ts').Token | null} */
  let glowing = null;
  let acted = null; // called when the learner has locked it

  // "2 scored" → steps of the timeline; rounds are counted from 1.
  function steps(place) {
    const [round, what, which] = place.split(' ');
    if (round === 'start') return 0;
    const index = Number(round) - 1,
      target = timeline.rounds[index];
    if (round === 'end' || !target) return timeline.steps;
    const begin = timeline.startOf(index);
    return (
      { drafted: begin + target.drafts, scored: begin + target.drafts + 1, done: timeline.startOf(index + 1) }[what] ??
      begin + target.drafts + 1 + Number(which)
    );
  }

  function show(name, { title, value }, place) {
    if (shown !== value) {
      player.read(value);
      shown = value;
    }
    caption.textContent = title;
    go(place);
  }
  function go(place) {
    clearGlow();
    playback.move(steps(place), 'reader');
  }

  function clearGlow() {
    root.querySelectorAll('[data-glow]').forEach(node => node.removeAttribute('data-glow'));
    glowing = acted = null;
  }

  // ``locked()``: the learner has locked the token.
  function glow([round, index], locked) {
    glowing = timeline.rounds[round]?.tokens[index];
    acted = locked;
    mark();
  }
  function mark() {
    if (glowing) rows.nodeOf(glowing)?.setAttribute('data-glow', '');
  }
  function look() {
    if (!glowing || !acted) return;
    const node = rows.nodeOf(glowing);
    if (node?.getAttribute('aria-current') !== 'true' || panel.dataset.open !== 'locked') return;
    const report = acted;
    clearGlow();
    report();
  }
  root.addEventListener('click', look);

  // On a phone the run is below the text.
  function press() {
    const node = glowing && rows.nodeOf(glowing);
    node?.scrollIntoView({ block: 'nearest' });
    node?.click();
  }

  return {
    show,
    go,
    glow,
    clearGlow,
    press,
    hideNumbers: isAsking => root.toggleAttribute('data-asking', isAsking),
    darken: isDark => root.toggleAttribute('data-dark', isDark),
  };
}
