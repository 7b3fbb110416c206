// Computes a run's uniforms as numpy's Philox4x64-10 does, so that a seed gives the
// same draws here as in the served engine.

export const ACCEPTING = 1;
export const CLOSING = 2; // of residual, bonus and plain tokens
const MASK = (1n << 64n) - 1n;
const ROUNDS = 10;

/** Four numbers of 64 bits: the block at ``counter``, of the key (k0, k1). Salmon et al. 2011.
 * @param {bigint} counter @param {bigint} k0 @param {bigint} k1 */
function block(counter, k0, k1) {
  let [a, b, c, d] = [counter, 0n, 0n, 0n];
  for (let round = 0; round < ROUNDS; round++) {
    const first = 0xd2e7470ee14c6c93n * a,
      second = 0xca5a826395121157n * c;
    [a, b, c, d] = [(second >> 64n) ^ b ^ k0, second & MASK, (first >> 64n) ^ d ^ k1, first & MASK];
    k0 = (k0 + 0x9e3779b97f4a7c15n) & MASK;
    k1 = (k1 + 0xbb67ae8584caa73bn) & MASK;
  }
  return [a, b, c, d];
}

/** Returns ``uniform(stream, place)``: multiples of 2⁻²⁴ in [0, 1).
 * @param {number | bigint} seed a whole number, also a BigInt */
export function makeUniforms(seed) {
  const key = BigInt(seed);
  /** @type {Map<string, bigint[]>} */
  const blocks = new Map();
  /** @param {number} stream @param {number} place */
  return (stream, place) => {
    const number = (place >> 2) + 1, // numpy counts up before its first block
      name = `${stream} ${number}`;
    if (!blocks.has(name)) blocks.set(name, block(BigInt(number), key, BigInt(stream)));
    return Number(blocks.get(name)[place & 3] >> 40n) / 2 ** 24;
  };
}
