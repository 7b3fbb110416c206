"""Finds the tree of a given size with the most expected tokens: the dynamic programme of Sequoia (Chen et al. 2024).

It knows one thing about the drafter: how often a child is accepted once its turn comes, by how many siblings were
tried before it. So the tree is chosen before anything is drafted, and its drafts may be real draws. Pure functions,
without torch.

``chances``: how often the first, second, … child of a node is accepted once its turn comes. A shape is its ``parents``,
as in a `Draft`: children are listed in the order they are tried, and all that follows one comes before its siblings.
"""

from collections.abc import Sequence

import numpy as np


class StaticTrees:
    """The best trees of up to ``limit`` drafts and ``deepest`` levels. ``gains`` [deepest + 1, limit + 1]: how many
    drafts are accepted on average, by the most levels and the most drafts that a tree may have."""

    def __init__(self, chances: Sequence[float], limit: int, deepest: int):
        shares, left, limit = [], 1.0, max(limit, 1)  # shares: each child's chance to be the accepted one
        for chance in chances:
            shares.append(left * chance)
            left *= 1 - chance
        B, smaller = len(shares), np.arange(limit + 1)[:, None] - np.arange(1, limit + 1)
        # best[d, b, n]: n drafts in d levels among the children from b on; first[d, b, n]: drafts in child b's branch
        self._best = np.zeros((deepest + 1, B + 1, limit + 1))
        self._first = np.zeros((deepest + 1, B + 1, limit + 1), dtype=int)
        for d in range(1, deepest + 1):
            for b in reversed(range(B)):
                branch = shares[b] * (1 + self._best[d - 1, 0, :limit])  # with 1 … limit drafts
                gains = np.where(smaller >= 0, branch + self._best[d, b + 1, smaller.clip(0)], 0.0)  # [n, drafts]
                self._best[d, b], self._first[d, b] = gains.max(1, initial=0), gains.argmax(1) + 1
        self.gains = self._best[:, 0]

    def parents(self, drafts: int, levels: int) -> tuple[int, ...]:
        """Finds the best tree of ``drafts`` drafts in at most ``levels`` levels, or of fewer where no more fit."""
        shape: list[int] = []

        def grow(parent: int, d: int, b: int, n: int) -> None:
            if d == 0 or n == 0 or self._best[d, b, n] <= 0:
                return
            own = self._first[d, b, n]
            shape.append(parent)
            grow(len(shape), d - 1, 0, own - 1)
            grow(parent, d, b + 1, n - own)

        grow(0, levels, 0, drafts)
        return tuple(shape)


def best_tree(chances: Sequence[float], drafts: int, deepest: int) -> tuple[int, ...]:
    """Returns the tree of ``drafts`` with the most accepted ones.

    >>> best_tree((0.6, 0.3), 3, 8), best_tree((0.4, 0.4), 3, 8)  # 0.6³ = 0.22 against 0.4 · 0.3; 0.06 against 0.24
    ((0, 1, 2), (0, 1, 0))
    """
    return StaticTrees(chances, drafts, deepest).parents(drafts, deepest)
