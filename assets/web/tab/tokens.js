// Encodes prompts and decodes tokens as the served engine does, with the vocabulary of the model's own file.
import { byteMarks, bytesOf, makeCutter } from '../lib/byte_pairs.js';

const UNFINISHED = '\ufffd'; // what bytes become whose character is not complete
const SHAPELESS = /[\p{C}\p{Z}]/u;
const LISTED = 5; // characters of a sentence

/** Whether Python's strip leaves nothing of a text. @param {string} text */
export const isBlank = text => [...text].every(c => /\p{White_Space}/u.test(c) || ('\x1c' <= c && c <= '\x1f'));

/** ``texts``: the text of each id. ``special``: ids that are whole in a text and have none of their own; ``marks``: the
 * ones that are shown by their name; ``template``: what the chat puts before and after a prompt; ``words``: a refusal
 * of a prompt that has no tokens, and a note on one that lacks some.
 * @typedef {{ texts: string[], merges: string[], special: number[], marks: number[],
 *   template: { before: string, after: string }, words: string[] }} Vocabulary */

/** @param {Vocabulary} vocabulary */
export function makeTokenizer({ texts, merges, special, marks, template, words }) {
  const ids = new Map(texts.map((text, id) => [text, id])),
    cut = makeCutter(merges, mark => ids.has(mark)),
    isSpecial = new Set(special),
    hasName = new Set(marks);
  const names = special.map(id => texts[id]).sort((a, b) => b.length - a.length);
  const escaped = names.map(name => name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  const apart = new RegExp(`(${escaped.join('|')})`);

  // Each digit is a piece of its own, before all else.
  const encodeText = text => text.split(/(\p{N})/u).flatMap(part => cut(part).map(piece => ids.get(piece)));
  /** @param {string} text */
  const encode = text => text.split(apart).flatMap((part, i) => (i % 2 ? [ids.get(part)] : encodeText(part)));
  /** @param {string} prompt */
  const encodePrompt = prompt => encode(template.before + prompt + template.after);

  /** How many ids of a prompt come before the visitor's own text: those that another text would have, too.
   * @param {string} prompt */
  function templateLength(prompt) {
    const mine = encodePrompt(prompt),
      other = encodePrompt(prompt.startsWith('x') ? 'y' : 'x');
    return Math.max(
      0,
      mine.findIndex((id, i) => id !== other[i]),
    );
  }

  /** @param {number[]} list */
  const decode = list =>
    new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytesOf(list.map(id => texts[id]).join('')));
  /** @param {number[]} list */
  const join = list => decode(list.filter(id => !isSpecial.has(id)));

  /** A sentence on the characters of a prompt that have no tokens, or '', and whether it is a refusal because nothing
   * else is left; as engine/decoding/unwritten_text.py finds them. @param {string} prompt */
  function unwritten(prompt) {
    const parts = prompt.split(apart).filter((_, i) => i % 2 === 0),
      lost = [...new Set(parts.join(''))].filter(char => [...byteMarks(char)].some(mark => !ids.has(mark)));
    const isRefusal = lost.length > 0 && isBlank(decode(encode(prompt)).replaceAll(UNFINISHED, ''));
    return { isRefusal, sentence: lost.length ? words[isRefusal ? 0 : 1].replace('{}', spell(lost)) : '' };
  }

  /** A token's own text, or its entry in the vocabulary if it has none. @param {number} id */
  function nameOf(id) {
    const text = isSpecial.has(id) ? texts[id] : decode([id]);
    return !text || text.includes(UNFINISHED) ? texts[id] : text;
  }
  /** @param {number} id @param {string} piece */
  const labelOf = (id, piece) => (!piece || hasName.has(id) ? nameOf(id) : null);
  return { size: texts.length, encode, encodePrompt, templateLength, unwritten, join, nameOf, labelOf };
}

/** Lists characters, those without a shape of their own by their number. @param {string[]} characters */
function spell(characters) {
  const number = char => `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`,
    listed = characters.slice(0, LISTED).map(c => (SHAPELESS.test(c) ? number(c) : `${c} (${number(c)})`));
  if (characters.length > LISTED) listed.push(`${characters.length - LISTED} more`);
  return listed.join(', ').replace(/, (?=[^,]*$)/, ' and ');
}

/** Turns ids into pieces that add up to the decoded text: bytes of an unfinished character add nothing until the token
 * that completes it.
 * @param {{ join: (list: number[]) => string }} tokenizer */
export function makeDetokenizer({ join }) {
  let list = [];
  let start = 0; // decoding begins here again: two stretches that are settled are enough context
  let settled = 0; // ids before this one have been returned as text

  /** @param {number} id */
  function push(id) {
    list.push(id);
    const before = join(list.slice(start, settled)),
      after = join(list.slice(start));
    if (after.endsWith(UNFINISHED)) return '';
    if (after.length > before.length) start = settled;
    settled = list.length;
    return after.slice(before.length);
  }

  // At the end of a text: what its last bytes are shown as if no token completes them.
  function tail() {
    const before = join(list.slice(start, settled)),
      rest = join(list.slice(start)).slice(before.length);
    start = settled = list.length;
    return rest;
  }

  /** The pieces that drafts would add if all were accepted. @param {number[]} drafts */
  function peek(drafts) {
    const saved = { list: [...list], start, settled },
      pieces = drafts.map(push);
    ({ list, start, settled } = saved);
    return pieces;
  }
  return { push, tail, peek };
}
