// Shows the tree of the round at the playhead, or the last tree before it. Drawn while its tab is open.
import { closest, make, makeFind, setText } from '../lib/dom.js';
import { format, quantity, spokenPercent } from '../lib/format.js';
import { draftedSentence } from './draft_sentences.js';
import { navigateRows } from './row_navigation.js';
import { makeTokenChip, setStatus } from './token_chip.js';
import { makeTooltip } from './tooltip.js';

export function mount(part) {
  const { element } = part;
  const root = element.querySelector('.sl-tree-tab');
  const find = makeFind(root);
  const frame = find('.sl-tree-frame');
  const tokens = new WeakMap(); // token element → token
  const tooltip = makeTooltip(find('.sl-tip'), frame);
  /** @type {import('./player.js').Place | null} */
  let playhead = null;
  let shownTree = -1;

  const isOpen = () => Boolean(root.offsetParent);

  function draw() {
    if (!playhead || !isOpen()) return;
    const {
        timeline: { rounds },
        index,
      } = playhead,
      last = rounds[index]?.lastTree ?? -1;
    shownTree = last;
    setText(find('h2'), last < 0 ? 'No tree yet' : `Round ${last + 1} of ${rounds.length}`);
    setText(
      find('.sl-tree-words'),
      last < 0 ? 'The rounds up to the playhead drafted none.' : sizeSentence(rounds[last]),
    );
    setText(
      find('.sl-tree-budget'),
      last < 0 ? '' : budgetWords(rounds[last]) || draftedSentence(rounds[last], playhead.timeline.about),
    );
    frame.hidden = last < 0;
    if (last >= 0) drawTree(rounds[last]);
    const buttons = [...root.querySelectorAll('[data-go]')],
      focused = buttons.find(button => button === document.activeElement);
    for (const button of buttons) button.disabled = !hasNeighbour(Number(button.dataset.go));
    if (focused?.disabled) (buttons.find(button => !button.disabled) ?? frame).focus({ preventScroll: true });
  }

  // The nodes of a round that is drawn already are kept, and with them the focus.
  function drawTree(round) {
    const line = frame.firstElementChild;
    const isSame = line?.children.length === round.cells.length && tokens.get(line.firstChild) === round.cells[0];
    if (!isSame) frame.replaceChildren(make('div', 'sl-line sl-tree', round.cells.map(nodeOf)));
    /** @type {NodeListOf<HTMLElement>} */
    const chips = frame.querySelectorAll('.sl-tree > *');
    for (const node of chips) {
      const stage = playhead.stageNow(tokens.get(node));
      if (node.dataset.stage !== stage) setStatus(node, stage, tokens.get(node).place.up ? ', another branch' : '');
    }
  }

  function nodeOf(token) {
    const node = makeTokenChip(token);
    if (token.expected !== undefined)
      node.lastChild.before(make('small', 'sl-expected', spokenPercent(token.expected)));
    tokens.set(node, token);
    return node;
  }

  function sizeSentence(round) {
    const { drafts, tested, accepted, forbidden } = round,
      depth = Math.max(...round.tokens.map(({ place }) => (place.closes ? 0 : place.depth)));
    return `${quantity(drafts, 'draft')}, at most ${depth} deep: ${tested} tested, ${accepted} accepted.${forbidden.length ? ` ${forbidden.length} more forbidden.` : ''}`;
  }

  const budgetWords = round =>
    round.row === undefined || round.tokens[0]?.expected === undefined
      ? ''
      : `Each number is a draft’s chance to be accepted, estimated before the pass. One more row would have cost ${format(round.row)} tokens.`;

  // ── other trees: they move the playhead, because there is one clock ──
  function hasNeighbour(step) {
    const { rounds } = playhead.timeline;
    return step > 0
      ? rounds.at(-1)?.lastTree > Math.max(shownTree, playhead.index)
      : rounds[shownTree - 1]?.lastTree >= 0;
  }
  function neighbourOf(step) {
    const { rounds } = playhead.timeline,
      after = Math.max(shownTree, playhead.index);
    return step > 0 ? rounds.findIndex((round, i) => i > after && round.parents) : rounds[shownTree - 1].lastTree;
  }

  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
  root.addEventListener('click', event => {
    const step = Number(closest(event.target, '[data-go]')?.dataset.go);
    const token = tokens.get(closest(event.target, '.sl-token'));
    if (step) tell('speclens-to-round', neighbourOf(step));
    else if (token) tell('speclens-inspect', token);
  });

  // The arrow keys go along the drafts in the order they were tried.
  function neighbour(node, key) {
    return ['ArrowRight', 'ArrowDown'].includes(key) ? node.nextElementSibling : node.previousElementSibling;
  }

  navigateRows(frame, {
    tokenOf: node => tokens.get(node),
    neighbour,
    hide: tooltip.hide,
    entrance: () => frame.querySelector('.sl-token:not([hidden])'),
    leave: () => frame.focus({ preventScroll: true }),
    preview(node) {
      const token = tokens.get(node);
      tooltip.show(node, token, playhead.stageNow(token), playhead.timeline.about.greedy);
    },
  });

  document.addEventListener('speclens-playhead', ({ detail }) => {
    playhead = detail;
    draw();
  });
  new ResizeObserver(draw).observe(root); // also when the tab is opened
  tell('speclens-ask-playhead');
}
