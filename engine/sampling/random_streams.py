"""Computes every uniform random number of a run from its seed, stream, position and sibling."""

import numpy as np

# The three streams of uniforms; CLOSING draws residual, bonus and plain tokens.
DRAFTING, ACCEPTING, CLOSING = 0, 1, 2


class Uniforms:
    """The uniforms of a run, a pure function of (seed, stream, position, sibling), so that a run can be replayed.

    Values are multiples of 2⁻²⁴ in [0, 1), exact in fp32 and in JSON. Because Philox is counter-based, the first values
    do not depend on ``positions``, the length of the tables.
    """

    def __init__(self, seed: int, positions: int):
        self.seed, self.positions = seed, positions
        self._tables: dict[tuple[int, int], np.ndarray] = {}

    def table(self, stream: int, sibling: int = 0) -> np.ndarray:
        """[positions] float32 of one stream; ``sibling`` numbers the children of one tree node, or a
        chain's steps."""
        key = (stream, sibling)
        if key not in self._tables:
            bits = np.random.Philox(key=[self.seed, stream + 4 * sibling]).random_raw(self.positions)
            self._tables[key] = ((bits >> np.uint64(40)).astype(np.float32) / np.float32(2**24)).astype(np.float32)
        return self._tables[key]
