// Writes the output up to the player's position: a step adds or removes its end. An underline says how each token came
// about. The text is in pieces of some rounds, and only those in sight are underlined. Otherwise each step of a long
// run would have its whole text underlined and painted again.
import { make } from '../lib/dom.js';
import { isEmitted } from '../lib/statuses.js';
import { stageOf } from './timeline.js';

const ROUNDS_A_PIECE = 32;

export function makeOutputView(box, timeline, frame = box) {
  const highlights = window.CSS?.highlights && window.Highlight ? CSS.highlights : null;
  const shownPieces = new WeakMap();
  const observer = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) see(shownPieces.get(target), isIntersecting);
  });
  const isAtEnd = () => frame.scrollHeight - frame.scrollTop - frame.clientHeight < 40;
  let wasAtEnd = true,
    height = 0;
  frame.addEventListener('scroll', () => {
    if (frame.clientHeight === height) wasAtEnd = isAtEnd();
  });
  // The note below the text takes some of its room, and a presentation gives it another size.
  new ResizeObserver(() => {
    height = frame.clientHeight;
    if (wasAtEnd) frame.scrollTop = frame.scrollHeight;
  }).observe(frame);
  const pieces = []; // {node, text, number, from, inSight, lines: {range, status, end, round} of each underline}
  let lastRound = -1;

  function highlight(name) {
    if (!highlights.has(name)) highlights.set(name, new Highlight());
    return highlights.get(name);
  }
  function rangeOf({ text, from }, start, end) {
    return new StaticRange({
      startContainer: text,
      startOffset: start - from,
      endContainer: text,
      endOffset: end - from,
    });
  }

  // The length of the output after ``step`` steps of round ``index``.
  function lengthAt({ index, step }) {
    if (index < 0) return timeline.prefix;
    const round = timeline.rounds[index];
    let length = round.offset;
    for (const token of round.emitted) if (stageOf(round, token, step) === token.status) length += token.text.length;
    return length;
  }

  // ── pieces ──
  const lengthOf = piece => piece.from + piece.text.length;
  const endOf = piece => timeline.rounds[(piece.number + 1) * ROUNDS_A_PIECE]?.offset ?? Infinity;

  function addPiece() {
    const number = pieces.length,
      text = document.createTextNode(''),
      node = make('span', '', [text]);
    const piece = { node, text, number, from: number ? endOf(pieces.at(-1)) : 0, inSight: false, lines: [] };
    pieces.push(piece);
    shownPieces.set(node, piece);
    box.append(node);
    observer.observe(node);
  }
  function dropPiece() {
    const piece = pieces.pop();
    see(piece, false);
    observer.unobserve(piece.node);
    piece.node.remove();
  }

  // ``most``: characters.
  function show(at, most = Infinity) {
    const length = Math.min(most, lengthAt(at)),
      stick = isAtEnd();
    lastRound = at.index;
    if (pieces.length ? length === lengthOf(pieces.at(-1)) : !length) return;
    while (pieces.length > 1 && pieces.at(-1).from >= length) dropPiece();
    if (!pieces.length) addPiece();
    write(pieces.at(-1), length);
    while (lengthOf(pieces.at(-1)) < length) {
      addPiece();
      write(pieces.at(-1), length);
    }
    if (stick) frame.scrollTop = frame.scrollHeight;
  }

  function write(piece, length) {
    const { text, from } = piece,
      end = Math.min(length, endOf(piece)),
      now = lengthOf(piece);
    if (end > now) text.appendData(timeline.textFrom(now, end));
    else text.deleteData(end - from, now - end);
    if (piece.inSight || end === length) see(piece, true); // the end of the text is taken to be in sight
  }

  // ── underlines ──
  function see(piece, inSight) {
    piece.inSight = inSight;
    if (inSight) return underline(piece);
    piece.lines.forEach(drop);
    piece.lines = [];
  }

  function underline(piece) {
    if (!highlights) return;
    const { lines, number } = piece,
      length = lengthOf(piece);
    while (lines.length && lines.at(-1).end > length) drop(lines.pop());
    if (timeline.forced && !number && !lines.length && length >= timeline.prefix)
      add(piece, 'forced', timeline.prefix - timeline.forced, timeline.prefix, 0);
    const last = Math.min(lastRound, (number + 1) * ROUNDS_A_PIECE - 1);
    for (let index = lines.at(-1)?.round ?? number * ROUNDS_A_PIECE; index <= last; index++) {
      let start = timeline.rounds[index].offset;
      for (const token of timeline.rounds[index].emitted) {
        const end = start + token.text.length;
        const name = token.grammar ? 'grammar' : token.status;
        if (end > (lines.at(-1)?.end ?? piece.from) && end <= length) add(piece, name, start, end, index);
        start = end;
      }
    }
  }
  function add(piece, status, start, end, round) {
    const range = rangeOf(piece, start, end);
    highlight(`sl-${status}`).add(range);
    piece.lines.push({ range, status, end, round });
  }
  const drop = ({ status, range }) => highlight(`sl-${status}`).delete(range);

  function mark(token) {
    if (!highlights) return;
    highlights.delete('sl-locked');
    const piece = token?.text && isEmitted(token) && pieces[Math.floor(token.round / ROUNDS_A_PIECE)];
    if (!piece) return;
    const round = timeline.rounds[token.round];
    let start = round.offset;
    for (const other of round.emitted) {
      if (other === token) break;
      start += other.text.length;
    }
    const end = start + token.text.length;
    if (end <= lengthOf(piece)) highlight('sl-locked').add(rangeOf(piece, start, end));
  }

  function reset() {
    while (pieces.length) dropPiece();
    highlights?.delete('sl-locked');
  }

  return { show, mark, reset, lengthAt };
}
