// Draws a long list of which only the rows in sight, and a few beside them, are in the document; padding takes the room
// of the others. So a trace of 2,000 tokens costs no more than a short one.

import { lastWhere } from './search.js';

const GUESS = 36; // px, the height of a row that was not drawn yet
const BESIDE = 6; // rows drawn above and below those in sight

/** @param {HTMLElement} frame scrolls
 * @param {HTMLElement} list is inside it
 * @param {(number: number) => HTMLElement} create returns the element of a row
 * @param {(node: HTMLElement, number: number) => void} [update] brings it up to date at each drawing */
export function makeVirtualRows(frame, list, create, update = () => {}) {
  const nodes = new Map(); // row number → its element
  let count = 0;
  let heights = []; // px, of each row as it was measured
  let tops = [0]; // px, from the first row to each
  let sticks = false; // to the end, until the reader scrolls away from it
  let ownScroll = -1,
    waiting = false,
    width = 0;

  const height = number => heights[number] || GUESS;
  // Reckoned on from the rows before, so that news at the end of a long list cost no more than of a short one.
  function topOf(number) {
    for (let last = tops.length - 1; last < number; last++) tops.push(tops[last] + height(last));
    return tops[number];
  }
  const heightOf = (from, to) => topOf(to) - topOf(from);
  function setHeight(number, value) {
    heights[number] = value;
    tops.length = Math.min(tops.length, number + 1);
  }
  function forgetHeights() {
    heights = [];
    tops = [0];
  }
  // The last row that begins at ``top`` or above it; 0 for none.
  const rowAt = top => lastWhere(count, number => topOf(number) <= top);
  // The height between the top of the scrolled content and the first row.
  const headHeight = () => list.getBoundingClientRect().top - frame.getBoundingClientRect().top + frame.scrollTop;

  function draw() {
    const view = frame.clientHeight || 400,
      head = headHeight(),
      lowest = Math.max(0, head + heightOf(0, count) - view);
    const top = (sticks ? lowest : Math.min(frame.scrollTop, lowest)) - head;
    const first = Math.max(0, rowAt(top) - BESIDE),
      last = Math.min(count, rowAt(top + view) + 1 + BESIDE);
    place(first, last);
    pad(first, last);
    if (measure(first, last)) pad(first, last);
    if (sticks) scrollTo(frame.scrollHeight);
  }

  function place(first, last) {
    for (const [number, node] of nodes) {
      if (number >= first && number < last) continue;
      if (node.contains(document.activeElement)) frame.focus({ preventScroll: true });
      node.remove();
      nodes.delete(number);
    }
    let after = null;
    for (let number = last - 1; number >= first; number--) {
      if (nodes.has(number)) update(nodes.get(number), number);
      else {
        nodes.set(number, create(number));
        list.insertBefore(nodes.get(number), after);
      }
      after = nodes.get(number);
    }
  }

  function pad(first, last) {
    list.style.paddingTop = `${heightOf(0, first)}px`;
    list.style.paddingBottom = `${heightOf(last, count)}px`;
  }

  function measure(first, last) {
    let changed = false;
    for (let number = first; number < last; number++) {
      const now = nodes.get(number).offsetHeight;
      if (now && now !== heights[number]) {
        setHeight(number, now);
        changed = true;
      }
    }
    return changed;
  }

  function scrollTo(top) {
    frame.scrollTop = top;
    ownScroll = frame.scrollTop;
  }

  frame.addEventListener('scroll', () => {
    if (waiting || frame.scrollTop === ownScroll) return;
    waiting = true;
    ownScroll = -1;
    requestAnimationFrame(() => {
      waiting = false;
      sticks = frame.scrollHeight - frame.scrollTop - frame.clientHeight < 40;
      draw();
    });
  });
  new ResizeObserver(() => {
    // at another width lines wrap elsewhere, so every height is another
    if (frame.clientWidth !== width) {
      width = frame.clientWidth;
      forgetHeights();
    }
    if (count) draw();
  }).observe(frame);

  return {
    // There are ``total`` rows now.
    showRows(total) {
      count = total;
      draw();
    },
    clear() {
      count = 0;
      forgetHeights();
      nodes.clear();
      list.replaceChildren();
      list.style.padding = '';
    },
    // Undefined for a row that is not in the document.
    node: number => nodes.get(number),
    scrollToRow(number) {
      sticks = false;
      scrollTo(Math.max(0, headHeight() + heightOf(0, number) - frame.clientHeight / 2));
      draw();
    },
    stick() {
      sticks = true;
    },
  };
}
