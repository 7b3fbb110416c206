// Tokenizes one text with two byte-pair tokenizers (merges.js), and retokenizes a draft of one for the other.

import { BYTE_MARKS, byteMarks, bytesOf, makeCutter } from '../../lib/byte_pairs.js';
import { make } from '../../lib/dom.js';
import { quantity } from '../../lib/format.js';
import { figure, makeNote, makeResult, slider } from '../widgets/widgets.js';
import { MERGES } from './merges.js';

export const textOf = pieces => new TextDecoder().decode(bytesOf(pieces.join('')));
// A piece that holds only a part of a character is shown as its bytes.
function seenPiece(piece) {
  try {
    return new TextDecoder('utf-8', { fatal: true })
      .decode(bytesOf(piece))
      .replace(/ /g, '␣')
      .replace(/\n/g, '⏎')
      .replace(/\t/g, '⇥');
  } catch {
    return Array.from(bytesOf(piece), byte => byte.toString(16).toUpperCase()).join(' ');
  }
}

// {cut, pieces, number}: a text → its pieces; number → piece; piece → number.
export function makeTokenizer(merges) {
  const pieces = [...new Set([...BYTE_MARKS].sort().concat(merges.map(pair => pair.replace(' ', ''))))];
  return { pieces, number: new Map(pieces.map((piece, index) => [piece, index])), cut: makeCutter(merges) };
}

// Groups two tokenizations of one text between common borders: [[pieces of one, pieces of the other], …].
function stretches(one, other) {
  const groups = [];
  const size = row => row.join('').length;
  for (let i = 0, k = 0; i < one.length || k < other.length; ) {
    const top = [one[i++]],
      below = [other[k++]];
    while (size(top) !== size(below)) size(top) < size(below) ? top.push(one[i++]) : below.push(other[k++]);
    groups.push([top, below]);
  }
  return groups;
}

// Follows the first ``count`` draft tokens: their text, the target's pieces of it, and the piece that the last of these
// becomes in the full text (undefined where the full text has the same border).
export function translate(draft, target, full, count) {
  const proposed = draft.cut(full).slice(0, count),
    text = textOf(proposed),
    anew = target.cut(text);
  const before = anew.slice(0, -1).join('').length,
    end = anew.join('').length;
  let at = 0;
  const become = target.cut(full).find(piece => {
    at += piece.length;
    return at > before;
  });
  return {
    proposed,
    text,
    anew,
    become: at === end ? undefined : become,
    misread: textOf(proposed.map(piece => target.pieces[draft.number.get(piece)])),
  };
}

export function makeTokenizerMismatch(settings, touched) {
  const draft = makeTokenizer(MERGES.code),
    target = makeTokenizer(MERGES.prose);
  const words = make('textarea', '', settings.text, { rows: 2, maxlength: 200, spellcheck: false });
  const field = make('label', 'sl-text-field', [make('span', '', 'Your text'), words]);
  const count = slider('Tokens drafted', { low: 1, high: 20, step: 1, value: settings.proposed ?? 4 });
  const both = make('div', 'sl-tokenizer-both'),
    aligned = makeNote(),
    way = make('ol', 'sl-tokenizer-way'),
    result = makeResult();
  const shared = draft.pieces.filter(piece => target.number.has(piece)),
    same = shared.filter(piece => draft.number.get(piece) === target.number.get(piece));

  const chip = (piece, kind, after = '') => make('span', `sl-tokenizer-piece ${kind}`, seenPiece(piece) + after);
  const line = (kind, pieces, after) =>
    make(
      'span',
      'sl-tokenizer-line',
      pieces.map((piece, i) => chip(piece, kind, after?.(piece, i))),
    );
  const stop = (title, ...parts) => make('li', '', [make('strong', '', title), ...parts]);

  function draw() {
    const text = words.value,
      one = draft.cut(text),
      other = target.cut(text),
      pairs = stretches(one, other);
    both.replaceChildren(
      ...pairs.map(([top, below]) =>
        make('span', 'sl-tokenizer-pair', [line('sl-tokenizer-draft', top), line('sl-tokenizer-target', below)]),
      ),
    );
    aligned.textContent = `Above are the draft’s ${quantity(one.length, 'piece')}, below the target’s ${other.length}. There’s a line wherever both cut: ${quantity(pairs.length, 'time')}.`;
    drawWay(text);
  }

  function drawWay(text) {
    const { proposed, text: proposedText, anew, become, misread } = translate(draft, target, text, count.value);
    const left = anew.slice(0, -1),
      last = anew.slice(-1);
    const tested = line('sl-tokenizer-target', left);
    tested.append(...last.map(piece => chip(piece, 'sl-tokenizer-held')));
    way.replaceChildren(
      stop(
        'Draft tokens, with their numbers',
        line('sl-tokenizer-draft', proposed, piece => ` ${draft.number.get(piece)}`),
      ),
      stop('Their text', line('sl-tokenizer-plain', proposedText ? [byteMarks(proposedText)] : [])),
      stop('The target’s pieces of it', line('sl-tokenizer-target', anew)),
      stop('To be tested; the last is held back', tested),
      stop(
        'If the numbers were sent instead, the target would read',
        line('sl-tokenizer-wrong', misread ? [byteMarks(misread)] : []),
      ),
    );
    const end =
      become === undefined
        ? 'Here it happens to be complete, but someone who sees only the draft can’t know that.'
        : `In the whole text it is “${seenPiece(become)}”.`;
    result.textContent = last.length
      ? `${proposed.length} drafted, ${left.length} to test. “${seenPiece(last[0])}” may be unfinished. ${end}`
      : 'Nothing is drafted: write something.';
    Object.assign(result.dataset, { drafted: proposed.length, tested: left.length });
  }
  return figure(
    'One text, two tokenizers',
    draw,
    touched,
    field,
    both,
    aligned,
    count.row,
    way,
    result,
    makeNote(
      `The draft’s tokenizer was trained on this program’s code, the target’s on these lessons, and each knows ${draft.pieces.length} pieces. ` +
        `They share ${shared.length}, and ${same.length} of these have the same number in both: mostly single bytes.`,
    ),
  );
}
