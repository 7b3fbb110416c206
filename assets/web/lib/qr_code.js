// Makes a QR code of a text (ISO/IEC 18004): bytes in UTF-8, error correction level L, up to version 25.

// By version, from 1: the codewords for correction in each block, and the number of blocks.
const CORRECTION = [7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28, 28, 28, 30, 30, 26];
const BLOCKS = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8, 8, 9, 9, 10, 12];
const LEVEL_L = 1;
const MASKS = [
  (x, y) => (x + y) % 2,
  (x, y) => y % 2,
  x => x % 3,
  (x, y) => (x + y) % 3,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2,
  (x, y) => ((x * y) % 2) + ((x * y) % 3),
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
];

// ── Reed and Solomon's code, over the field of 256 elements ──
function multiply(x, y) {
  let product = 0;
  for (let i = 7; i >= 0; i--) product = (product << 1) ^ ((product >> 7) * 0x11d) ^ (((y >> i) & 1) * x);
  return product;
}
function generator(degree) {
  const factors = Array.from({ length: degree }, (_, i) => Number(i === degree - 1));
  for (let i = 0, root = 1; i < degree; i++, root = multiply(root, 2))
    for (let j = 0; j < degree; j++) factors[j] = multiply(factors[j], root) ^ (factors[j + 1] ?? 0);
  return factors;
}
function remainder(data, factors) {
  const rest = factors.map(() => 0);
  for (const byte of data) {
    const lead = byte ^ rest.shift();
    rest.push(0);
    factors.forEach((factor, i) => {
      rest[i] ^= multiply(factor, lead);
    });
  }
  return rest;
}

// ── the codewords ──
const alignments = version => (version === 1 ? 0 : Math.floor(version / 7) + 2);

// All codewords of a version, data and correction.
function codewordsOf(version) {
  const count = alignments(version),
    patterns = count && (25 * count - 10) * count - 55 + (version >= 7 ? 36 : 0);
  return Math.floor(((16 * version + 128) * version + 64 - patterns) / 8);
}
const dataOf = version => codewordsOf(version) - CORRECTION[version - 1] * BLOCKS[version - 1];
const lengthBits = version => (version < 10 ? 8 : 16);

function dataCodewords(bytes, version) {
  const bits = [];
  const add = (value, length) => {
    for (let i = length - 1; i >= 0; i--) bits.push((value >> i) & 1);
  };
  add(4, 4); // bytes follow
  add(bytes.length, lengthBits(version));
  for (const byte of bytes) add(byte, 8);
  add(0, Math.min(4, 8 * dataOf(version) - bits.length));
  add(0, -bits.length & 7);
  const data = [];
  for (let i = 0; i < bits.length; i += 8) data.push(bits.slice(i, i + 8).reduce((byte, bit) => 2 * byte + bit, 0));
  for (let fill = 0xec; data.length < dataOf(version); fill ^= 0xec ^ 0x11) data.push(fill);
  return data;
}

// The blocks with their correction, one codeword of each in turn. The first blocks may be one codeword shorter.
function interleave(data, version) {
  const count = BLOCKS[version - 1],
    factors = generator(CORRECTION[version - 1]),
    short = Math.floor(data.length / count),
    longFrom = count - (data.length % count);
  const blocks = [];
  for (let i = 0, at = 0; i < count; i++) {
    const length = short + Number(i >= longFrom);
    blocks.push(data.slice(at, at + length));
    at += length;
  }
  const turn = lists =>
    Array.from({ length: Math.max(...lists.map(list => list.length)) }, (_, i) => lists.map(list => list[i]))
      .flat()
      .filter(each => each !== undefined);
  return [...turn(blocks), ...turn(blocks.map(block => remainder(block, factors)))];
}

// ── the picture ──
function alignmentPlaces(version) {
  const count = alignments(version),
    size = 4 * version + 17;
  if (!count) return [];
  const step = 2 * Math.ceil((size - 13) / (2 * count - 2));
  return [6, ...Array.from({ length: count - 1 }, (_, i) => size - 7 - (count - 2 - i) * step)];
}

// Appends the correction of a BCH code: ``length`` bits of it, by the polynomial.
function withCheck(value, length, polynomial) {
  let rest = value;
  for (let i = 0; i < length; i++) rest = (rest << 1) ^ ((rest >> (length - 1)) * polynomial);
  return (value << length) | rest;
}

// The patterns of a version without its data. ``fixed``: the modules that data may not take.
function frame(version) {
  const size = 4 * version + 17,
    dark = Array.from({ length: size }, () => Array(size).fill(false)),
    fixed = Array.from({ length: size }, () => Array(size).fill(false));
  const set = (x, y, isDark) => {
    if (x < 0 || y < 0 || x >= size || y >= size) return;
    dark[y][x] = Boolean(isDark);
    fixed[y][x] = true;
  };
  for (let i = 0; i < size; i++) {
    set(6, i, i % 2 === 0);
    set(i, 6, i % 2 === 0);
  }
  const square = (x, y, radius, isDark) => {
    for (let dy = -radius; dy <= radius; dy++)
      for (let dx = -radius; dx <= radius; dx++) set(x + dx, y + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))));
  };
  const ends = [3, size - 4];
  for (const x of ends) for (const y of ends) if (x === 3 || y === 3) square(x, y, 4, ring => ring !== 2 && ring !== 4);
  const places = alignmentPlaces(version),
    last = places.length - 1;
  places.forEach((x, i) => {
    places.forEach((y, j) => {
      const isFinder = (!i && !j) || (!i && j === last) || (i === last && !j);
      if (!isFinder) square(x, y, 2, ring => ring !== 1);
    });
  });
  if (version >= 7) {
    const bits = withCheck(version, 12, 0x1f25);
    for (let i = 0; i < 18; i++) {
      const [far, near] = [size - 11 + (i % 3), Math.floor(i / 3)];
      set(far, near, (bits >> i) & 1);
      set(near, far, (bits >> i) & 1);
    }
  }
  return { size, dark, fixed, set };
}

// The level and the mask, twice.
function drawFormat({ size, set }, mask) {
  const bits = withCheck((LEVEL_L << 3) | mask, 10, 0x537) ^ 0x5412,
    bit = i => (bits >> i) & 1;
  for (let i = 0; i < 6; i++) set(8, i, bit(i));
  set(8, 7, bit(6));
  set(8, 8, bit(7));
  set(7, 8, bit(8));
  for (let i = 9; i < 15; i++) set(14 - i, 8, bit(i));
  for (let i = 0; i < 8; i++) set(size - 1 - i, 8, bit(i));
  for (let i = 8; i < 15; i++) set(8, size - 15 + i, bit(i));
  set(8, size - 8, true);
}

// Writes the codewords in zigzags of two columns, from the right, around the fixed modules.
function drawData({ size, dark, fixed }, codewords) {
  let i = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step++) {
      const isUpward = ((right + 1) & 2) === 0,
        y = isUpward ? size - 1 - step : step;
      for (const x of [right, right - 1]) {
        if (fixed[y][x] || i >= 8 * codewords.length) continue;
        dark[y][x] = Boolean((codewords[i >> 3] >> (7 - (i & 7))) & 1);
        i++;
      }
    }
  }
}

// What makes a picture hard to read: long runs, squares, patterns like a finder's, and too much of one colour.
function penaltyOf(dark) {
  const size = dark.length,
    columns = dark.map((_, x) => dark.map(row => row[x]));
  let penalty = 0;
  for (const line of [...dark, ...columns]) {
    const text = line.map(Number).join('');
    for (const [run] of text.matchAll(/0{5,}|1{5,}/g)) penalty += run.length - 2;
    for (const finder of ['10111010000', '00001011101'])
      for (let at = text.indexOf(finder); at >= 0; at = text.indexOf(finder, at + 1)) penalty += 40;
  }
  for (let y = 1; y < size; y++)
    for (let x = 1; x < size; x++)
      if (dark[y][x] === dark[y - 1][x] && dark[y][x] === dark[y][x - 1] && dark[y][x] === dark[y - 1][x - 1])
        penalty += 3;
  const share = dark.flat().filter(Boolean).length / size ** 2;
  return penalty + 10 * Math.floor(Math.abs(20 * share - 10));
}

/** Returns the rows of the code, true for dark, without its margin; null for a text that is too long.
 * @param {string} text @returns {boolean[][] | null} */
export function qrCode(text) {
  const bytes = [...new TextEncoder().encode(text)],
    fits = version => 4 + lengthBits(version) + 8 * bytes.length <= 8 * dataOf(version);
  const version = CORRECTION.map((_, i) => i + 1).find(fits);
  if (!version) return null;
  const codewords = interleave(dataCodewords(bytes, version), version);
  const drawn = MASKS.map((isKept, mask) => {
    const picture = frame(version);
    drawFormat(picture, mask);
    drawData(picture, codewords);
    const rows = picture.dark.map((row, y) =>
      row.map((isDark, x) => (picture.fixed[y][x] || isKept(x, y) ? isDark : !isDark)),
    );
    return { rows, penalty: penaltyOf(rows) };
  });
  return drawn.reduce((best, each) => (each.penalty < best.penalty ? each : best)).rows;
}
