// Expands the tensors of a GGUF file to fp32, with the values of engine/models/tensors/gguf_blocks.py.

const GROUP = 32; // weights that share a scale
const BYTES = { Q8_0: 34, Q4_1: 20 }; // of each group

/** @typedef {{ type: string, shape: number[], offset: number, heads?: number }} Place */

/** @param {number} bits */
function fp16(bits) {
  const exponent = (bits >> 10) & 31,
    fraction = bits & 1023,
    sign = bits >> 15 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

/** Writes the weights of row ``row`` into ``out`` from ``at`` on.
 * @param {DataView} file the whole file
 * @param {Place} place @param {number} row @param {Float32Array} out @param {number} at */
export function expandRow(file, { type, shape, offset }, row, out, at) {
  const width = shape[shape.length - 1];
  if (type === 'F32') {
    for (let i = 0; i < width; i++) out[at + i] = file.getFloat32(offset + 4 * (row * width + i), true);
    return;
  }
  const groups = width / GROUP;
  for (let group = 0; group < groups; group++) {
    const from = offset + (row * groups + group) * BYTES[type],
      scale = fp16(file.getUint16(from, true)),
      to = at + group * GROUP;
    if (type === 'Q8_0') for (let i = 0; i < GROUP; i++) out[to + i] = scale * file.getInt8(from + 2 + i);
    else {
      const least = fp16(file.getUint16(from + 2, true));
      for (let i = 0; i < GROUP / 2; i++) {
        const both = file.getUint8(from + 4 + i);
        out[to + i] = scale * (both & 15) + least;
        out[to + GROUP / 2 + i] = scale * (both >> 4) + least;
      }
    }
  }
}

/** The row of the file that row ``row`` of the graph is: the file stores the halves of a rotary pair side by side, and
 * the graph expects them half a head apart.
 * @param {Place} place @param {number} row */
function storedRow({ shape, heads }, row) {
  if (!heads) return row;
  const size = shape[0] / heads,
    within = row % size;
  return row - within + 2 * (within % (size / 2)) + Math.floor(within / (size / 2));
}

/** All weights of a graph in one array: the tensors of each, one below the other.
 * @param {DataView} file @param {Record<string, Place>} tensors @param {string[][]} recipe @param {number} bytes */
export function expandAll(file, tensors, recipe, bytes) {
  const out = new Float32Array(bytes / 4);
  let at = 0;
  for (const name of recipe.flat()) {
    const place = tensors[name],
      width = place.shape[place.shape.length - 1],
      rows = place.shape.length > 1 ? place.shape[0] : 1;
    for (let row = 0; row < rows; row++, at += width) expandRow(file, place, storedRow(place, row), out, at);
  }
  return out;
}
