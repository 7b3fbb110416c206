"""Finds the places of a context in a long text: a suffix array over the text read backwards (Manber and Myers 1990).

Dimension key: T tokens of the text, M places found.
"""

from collections.abc import Iterator, Sequence

import numpy as np

DEPTH = 16  # tokens by which places are sorted, and so the longest context that is found


class ContextIndex:
    """``tokens`` [T]: the text. Places are sorted by the tokens before them, the last one first, so those that follow
    one context lie side by side, and those that follow a longer one lie within."""

    def __init__(self, tokens: np.ndarray):
        self.tokens = tokens = tokens.astype(np.int64)
        self._places = _sorted_places(tokens)

    def fork(self) -> "ContextIndex":
        """Returns itself, because a text has no state: every run reads this one. See `Runner.fork`."""
        return self

    def matches(self, context: Sequence[int]) -> Iterator[np.ndarray]:
        """Yields, for the last 1, 2, … tokens of ``context`` for as long as they occur, the places [M] after them."""
        low, high = 0, len(self._places)
        for back, token in enumerate(reversed(context[-DEPTH:]), start=1):
            low = self._first(token, back, low, high)
            high = self._first(token + 1, back, low, high)
            if low == high:
                return
            yield self._places[low:high]

    def _first(self, token: int, back: int, low: int, high: int) -> int:
        """Finds the first of the places low … high whose token ``back`` before it is ``token`` or greater."""
        while low < high:
            middle = (low + high) // 2
            at = self._places[middle] - back
            if at >= 0 and self.tokens[at] >= token:
                high = middle
            else:
                low = middle + 1
        return low


def _sorted_places(tokens: np.ndarray) -> np.ndarray:
    """Returns the places 1 … T, sorted by the tokens before them [T] int32; where the text begins sorts first. Doubles
    the number of tokens compared, each time by one sort of pairs of ranks."""
    ranks, compared = np.unique(tokens[::-1], return_inverse=True)[1].astype(np.int64) + 1, 1
    while compared < DEPTH:
        behind = np.zeros_like(ranks)
        behind[:-compared] = ranks[compared:]
        ranks = np.unique(ranks * (len(ranks) + 1) + behind, return_inverse=True)[1] + 1
        compared *= 2
    return (len(tokens) - np.argsort(ranks, kind="stable")).astype(np.int32)
