// Points at an accepted, a rejected and a resampled token of the recorded run, until the visitor runs something.
import { closest, make } from '../lib/dom.js';
import { STATUSES } from '../lib/statuses.js';
import { readText, storeText } from '../lib/storage.js';

const SEEN = 'speclens-captions';
const CAPTIONS = [
  ['resampled', 'Resampled', 'the model’s own word instead.'],
  ['rejected', 'Rejected', 'it ends the round.'],
  ['accepted', 'Accepted', 'the model keeps this guess.'],
];

// The first round with all three in which the two models plainly disagree, else the first of at least ten; undefined
// for none.
export function roundToExplain({ rounds }) {
  const has = (round, status) => round.tokens.some(token => token.status === status);
  const complete = rounds.filter(round => !round.parents && CAPTIONS.every(([status]) => has(round, status)));
  return complete.find(isDisagreement) ?? complete.find(round => round.index >= 9);
}

const isDisagreement = ({ tokens }) =>
  tokens.some(({ status, accept }) => status === 'rejected' && accept < 0.05) &&
  tokens.some(({ status, p }) => status === 'resampled' && p > 0.5);

export const wasSeen = () => Boolean(readText(SEEN));
export function endCaptions(root) {
  root.querySelector('.sl-captions')?.remove();
  storeText(SEEN, '1');
}

// ``row``: the element of the round's row, below which they stand and whose width they fit. They go as its tokens
// scroll out of sight, and when the reader inspects one.
export function showCaptions(root, row) {
  const box = make('div', 'sl-captions', '', { role: 'note' });
  let width = 0;
  function draw() {
    if (row.clientWidth === width) return;
    width = row.clientWidth;
    const lines = captionNodes(row);
    box.replaceChildren(...lines);
    fit(lines, box.getBoundingClientRect().right - 6);
  }
  row.append(box);
  draw();
  new ResizeObserver(draw).observe(row);
  leaveWith(root, row, box);
}

function leaveWith(root, row, box) {
  let wasSeen = false;
  const sight = new IntersectionObserver(
    entries => {
      const { isIntersecting } = entries.at(-1);
      if (wasSeen && !isIntersecting) leave();
      wasSeen ||= isIntersecting;
    },
    { root: row.closest('.sl-rows') },
  );
  function leave() {
    sight.disconnect();
    box.remove();
  }
  sight.observe(row.querySelector('.sl-line'));
  root.addEventListener('click', event => {
    if (closest(event.target, '.sl-list .sl-token')) leave();
  });
}

// Each points at the lowest token of its kind that has a place without another token below it. The one furthest to the
// right comes first, so that no leader runs through the words of another.
function captionNodes(row) {
  const edge = row.getBoundingClientRect().left,
    chips = [...row.querySelectorAll('.sl-token')].map(chip => ({ chip, box: chip.getBoundingClientRect() }));
  const middle = ({ left, right, bottom }) => ({ x: (left + right) / 2, bottom });
  const end = ({ right, bottom }) => ({ x: right - 10, bottom });
  const isFree = ({ x, bottom }) => !chips.some(({ box }) => box.top >= bottom && box.left <= x && x <= box.right);
  return CAPTIONS.flatMap(([status, word, text]) => {
    const ofKind = chips.filter(({ chip }) => chip.classList.contains(`sl-${status}`)).map(({ box }) => box);
    const places = [...ofKind.map(middle), ...ofKind.map(end)];
    const [place = places[0]] = places.filter(isFree).sort((a, b) => b.bottom - a.bottom);
    return place ? [{ from: place.x - edge, mark: STATUSES[status].mark, word, text }] : [];
  })
    .sort((a, b) => b.from - a.from)
    .map(({ from, mark, word, text }) =>
      make('p', '', [make('b', '', `${mark} ${word}`), `: ${text}`], { '--from': `${from}px` }),
    );
}

// Without room for one of them all begin at the left, in the order of the tokens, and have no leaders; their marks are
// the tokens'.
function fit(lines, right) {
  const isCut = lines.some(line => line.getBoundingClientRect().right > right);
  for (const line of lines) line.toggleAttribute('data-moved', isCut);
}
