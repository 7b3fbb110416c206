// Runs the passes of the graph that the site's build wrote (app/tab/graph.py), on ONNX Runtime's WASM.
const ROWS = 2; // of an attention at least: one row alone takes another kernel, which adds in another order

/** @typedef {{ layers: number, heads: number, headSize: number, width: number, vocabulary: number, context: number,
 *   frequencies: number[], scaling: number }} Sizes */

/** @param {any} ort the runtime
 * @param {Uint8Array} graph its bytes
 * @param {Float32Array} weights all of its own, one after the other
 * @param {Sizes} sizes
 * @param {(ids: number[]) => Float32Array} embed the rows that it reads */
export async function loadModel(ort, graph, weights, sizes, embed) {
  const session = await ort.InferenceSession.create(graph, {
    executionProviders: ['wasm'],
    externalData: [{ path: 'weights', data: new Uint8Array(weights.buffer) }],
  });
  const { Tensor } = ort,
    half = sizes.headSize / 2,
    sides = Array.from({ length: sizes.layers }, (_, i) => [`k${i}.0`, `v${i}.0`]).flat(),
    outputs = ['logits', ...sides.map(side => `next.${side}`)];
  let capacity = 0,
    cache = {},
    rotary = {};

  /** @param {number} slots */
  function reset(slots) {
    const size = 64 * Math.ceil(slots / 64),
      shape = [1, sizes.heads, size, sizes.headSize];
    const zeros = () => new Tensor('float32', new Float32Array(sizes.heads * size * sizes.headSize), shape);
    cache = Object.fromEntries(sides.map(side => [`past.${side}`, zeros()]));
    if (size === capacity) return;
    capacity = size;
    const angles = Array.from({ length: size * half }, (_, i) =>
      Math.fround(Math.floor(i / half) * Math.fround(sizes.frequencies[i % half])),
    );
    const table = of =>
      new Tensor(
        'float32',
        Float32Array.from(angles, x => of(x) * sizes.scaling),
        [size, half],
      );
    rotary = { cos: table(Math.cos), sin: table(Math.sin) };
  }

  const longs = (values, shape) => new Tensor('int64', BigInt64Array.from(values, BigInt), shape);
  const integer = value => new Tensor('int32', Int32Array.of(value), [1]);

  /** The logits after each of the last ``wanted`` ids, whose places begin at ``start``. The cache forgets that place
   * and all after it, so a rollback is only a smaller ``start``.
   * @param {number[]} ids @param {number} start @param {number} wanted
   * @returns {Promise<Float32Array[]>} */
  async function pass(ids, start, wanted) {
    const W = ids.length,
      places = Math.max(W, ROWS),
      numbers = Array.from({ length: W }, (_, i) => i);
    const results = await session.run(
      {
        ...cache,
        ...rotary,
        x: new Tensor('float32', embed(ids), [W, sizes.width]),
        layout: longs(
          Array.from({ length: places }, (_, i) => Math.min(i, W - 1)),
          [1, places],
        ),
        back: longs(
          numbers.flatMap(i => [0, i]),
          [W, 2],
        ),
        rows: longs(numbers.slice(W - wanted), [wanted]),
        'last.0': integer(start + places - 1),
        'total.0': integer(start + places),
      },
      outputs,
    );
    for (const side of sides) cache[`past.${side}`] = results[`next.${side}`];
    const logits = results.logits.data;
    return Array.from({ length: wanted }, (_, i) => logits.slice(i * sizes.vocabulary, (i + 1) * sizes.vocabulary));
  }
  return { context: sizes.context, reset, pass };
}
