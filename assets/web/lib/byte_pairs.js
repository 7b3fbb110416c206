// Cuts a text into the pieces of a byte-pair tokenizer of GPT-2's kind, and puts pieces together again. Knows no DOM.

// GPT-2's characters for bytes: a printable byte is its own character, the others follow from 256 on.
export const BYTE_MARKS = (() => {
  const plain = byte => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173 && byte < 256);
  const marks = [];
  for (let byte = 0, more = 256; byte < 256; byte++) marks.push(String.fromCharCode(plain(byte) ? byte : more++));
  return marks;
})();
const BYTES = new Map(BYTE_MARKS.map((mark, byte) => [mark, byte]));
// Merges stay within these: a word with the space before it, digits, punctuation, spaces.
const WORDS =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

export const byteMarks = text => Array.from(new TextEncoder().encode(text), byte => BYTE_MARKS[byte]).join('');
export const bytesOf = pieces => Uint8Array.from(pieces, mark => BYTES.get(mark));

// Returns ``cut(text)``: its pieces. ``merges``: pairs such as "t h", in the order of training; ``isKnown``: whether a
// byte's mark is a token. Other bytes are left out before the merges, as the tokenizers library does (0.23).
export function makeCutter(merges, isKnown = _ => true) {
  const ranks = new Map(merges.map((pair, rank) => [pair, rank]));

  // Merges pairs in the order of training, the leftmost first.
  function word(text) {
    const parts = [...byteMarks(text)].filter(isKnown);
    for (;;) {
      let best = Infinity,
        at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return parts;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }
  return text => (text.match(WORDS) || []).flatMap(word);
}
