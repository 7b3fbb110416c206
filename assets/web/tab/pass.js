// Runs the passes of a graph that the site's build wrote, on ONNX Runtime's WASM: the target's
// (app/tab/graph.py) or a head's (app/tab/head_graph.py).
const ROWS = 2; // of an attention at least: one row alone takes another kernel, which adds in another order

/** @typedef {{ layers: number, heads: number, headSize: number, width: number, vocabulary: number, context: number,
 *   frequencies: number[], scaling: number }} Sizes */

/** @param {any} ort the runtime
 * @param {Uint8Array} graph its bytes
 * @param {Float32Array} weights all of its own, one after the other
 * @param {Sizes} sizes
 * @param {(ids: number[]) => Float32Array} embed the rows that it reads
 * @param {number[]} taps the layers whose incoming states are kept for a head */
export async function loadModel(ort, graph, weights, sizes, embed, taps = []) {
  const session = await ort.InferenceSession.create(graph, {
    executionProviders: ['wasm'],
    externalData: [{ path: 'weights', data: new Uint8Array(weights.buffer) }],
  });
  const { Tensor } = ort,
    half = sizes.headSize / 2,
    sides = Array.from({ length: sizes.layers }, (_, i) => [`k${i}.0`, `v${i}.0`]).flat(),
    tapped = taps.filter(layer => layer).map(layer => `norm${layer}.sum`), // the first layer's is the embedding
    wantedOutputs = ['logits', ...sides.map(side => `next.${side}`), ...tapped],
    stateWidth = taps.length * sizes.width;
  let capacity = 0,
    cache = {},
    rotary = {},
    states = new Float32Array(0);

  /** @param {number} slots */
  function reset(slots) {
    const size = 64 * Math.ceil(slots / 64),
      shape = [1, sizes.heads, size, sizes.headSize];
    const zeros = () => new Tensor('float32', new Float32Array(sizes.heads * size * sizes.headSize), shape);
    cache = Object.fromEntries(sides.map(side => [`past.${side}`, zeros()]));
    if (size === capacity) return;
    capacity = size;
    states = new Float32Array(size * stateWidth);
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

  /** The states of each token from place ``start`` to ``end``: those of all tapped layers, side by side.
   * @param {number} start @param {number} end */
  const statesOf = (start, end) => states.subarray(start * stateWidth, end * stateWidth);

  /** The logits after each of the last ``wanted`` ids, whose places begin at ``start``. The cache forgets that place
   * and all after it, so a rollback is only a smaller ``start``.
   * @param {number[]} ids @param {number} start @param {number} wanted
   * @param {Float32Array} [features] what a head reads beside the ids
   * @returns {Promise<Float32Array[]>} */
  async function pass(ids, start, wanted, features) {
    const W = ids.length,
      places = Math.max(W, ROWS),
      x = embed(ids),
      numbers = Array.from({ length: W }, (_, i) => i);
    const results = await session.run(
      {
        ...cache,
        ...rotary,
        ...(features && { features: new Tensor('float32', features, [W, features.length / W]) }),
        x: new Tensor('float32', x, [W, sizes.width]),
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
      wantedOutputs,
    );
    for (const side of sides) cache[`past.${side}`] = results[`next.${side}`];
    for (const [i, layer] of taps.entries()) {
      const layerStates = layer ? results[`norm${layer}.sum`].data : x;
      for (let row = 0; row < W; row++) {
        const own = layerStates.subarray(row * sizes.width, (row + 1) * sizes.width);
        states.set(own, (start + row) * stateWidth + i * sizes.width);
      }
    }
    const logits = results.logits.data;
    return Array.from({ length: wanted }, (_, i) => logits.slice(i * sizes.vocabulary, (i + 1) * sizes.vocabulary));
  }
  return { context: sizes.context, reset, pass, statesOf };
}
