"""Computes every uniform random number of a run from its seed, stream, position and sibling."""

from collections.abc import Callable, Sequence

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
        """Returns [positions] float32 of one stream; ``sibling`` numbers a node's children, or a chain's steps."""
        key = (stream, sibling)
        if key not in self._tables:
            bits = np.random.Philox(key=[self.seed, stream + 4 * sibling]).random_raw(self.positions)
            self._tables[key] = ((bits >> np.uint64(40)).astype(np.float32) / np.float32(2**24)).astype(np.float32)
        return self._tables[key]

    def accepting(self, place: int, depth: np.ndarray, parents: Sequence[int]) -> list[float]:
        """Returns u [N]: the accept draws of a round's drafts, each tested alone. ``place``: the place of the round's
        first token among the run's new ones; ``depth`` [N+1] and ``parents`` [N]: as in a tree. Each sibling has its
        own stream."""
        streams = (parents[:i].count(parent) for i, parent in enumerate(parents))
        places = (place + depth[1:] - 1).tolist()
        return [self._one(ACCEPTING, *of_draft) for of_draft in zip(streams, places, strict=True)]

    def accepting_together(self, place: int, N: int, stream: Callable[[int], int]) -> list[float]:
        """Returns u [N] for drafts that are decided on together. They are numbered in their round, and no number comes
        again at the same (stream, place): otherwise a draw that discarded a draft would decide again in the next round.
        ``stream``: the stream of each number."""
        return [self._one(ACCEPTING, stream(i), place + i) for i in range(N)]

    def closing(self, place: int, depth: np.ndarray) -> np.ndarray:
        """Returns [N+1]: the closing token's draw, by the node that it follows."""
        return self.table(CLOSING)[place + depth]

    def _one(self, stream: int, sibling: int, place: int) -> float:
        return float(self.table(stream, sibling)[place])
