// Connects the stage to gradio: reads each value, and asks for the whole run when values were lost on the way.
import { make, onValue } from '../lib/dom.js';
import { makeHeartbeat } from '../lib/heartbeat.js';
import { makePlayer } from './player.js';
import { makeWhatIf } from './what_if.js';

const LONG_QUEUE = 3; // runs before the visitor's

// ``part.isOffline``: nothing answers a trigger, so that no button may ask for a branch or another measurement.
export function mount(part) {
  const { element, trigger } = part;
  const box = element.querySelector('.sl-player'),
    expectValues = makeHeartbeat(part);

  // Scrolls to the rounds after Run was pressed or a file was opened far below.
  function bringIntoSight() {
    const head = box.querySelector('.sl-head'),
      top = head.getBoundingClientRect().top;
    // Another tab is open, or it is in sight.
    if (!box.offsetParent || (top >= 0 && top < window.innerHeight / 2)) return;
    if (top > 0) head.scrollIntoView({ block: 'start' });
    else window.scrollTo({ top: 0 });
  }

  // On a phone the rounds end where the transport begins, however many lines are above them (stage.css).
  const rows = box.querySelector('.sl-rows');
  const above = new ResizeObserver(() => box.style.setProperty('--sl-above', `${rows.offsetTop}px`));
  for (const part of box.querySelectorAll('.sl-head, .sl-strip, .sl-rounds .sl-legend')) above.observe(part);

  function onStatus(status) {
    expectValues(status.kind === 'progress');
    box.toggleAttribute('data-queue', status.place >= LONG_QUEUE); // then the head offers to run it elsewhere
    document.dispatchEvent(new CustomEvent('speclens-place', { detail: status.place ?? null }));
  }

  // For the tab of trees, a component of its own: where the playhead is; back come a
  // token to inspect and a round to go to.
  const onPlace = detail => document.dispatchEvent(new CustomEvent('speclens-playhead', { detail }));
  document.addEventListener('speclens-ask-playhead', () => player.tellPlace());
  document.addEventListener('speclens-to-round', ({ detail }) => player.toRound(detail));
  document.addEventListener('speclens-inspect', ({ detail }) => {
    player.lock(detail);
    bringIntoSight();
  });

  let opened = false; // the run that the page opens with does not scroll it
  function runStarted() {
    if (!opened) return;
    whatIf.hide();
    bringIntoSight();
  }
  const engine = part.isOffline
    ? null
    : {
        fork: (place, id) => trigger('fork', { place, id }),
        keep: () => trigger('keep'),
        drop: () => trigger('drop'),
        alone: () => trigger('alone'),
      };
  const player = makePlayer(box, { askAgain: () => trigger('missing'), runStarted, onStatus, onPlace, engine });
  const sentence = make('p', 'sl-what-if', '', { role: 'status', hidden: '' });
  box.querySelector('.sl-strip').after(sentence);
  const whatIf = makeWhatIf(sentence, () => {
    const { rounds, about } = player.timeline;
    const ours = about.server ? rounds.slice(1) : rounds; // a server's first token came out of the prompt's pass
    return { rounds: ours, temperature: about.temperature ?? 0, costs: about.costs, isServed: Boolean(about.server) };
  });
  onValue(part, player.read);
  opened = true;
}
