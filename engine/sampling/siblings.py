"""Lists the siblings of a tree of drafts on the host. Node 0 is the pending token, node i (1-based) the i-th draft."""

from collections.abc import Sequence
from typing import NamedTuple


class Siblings(NamedTuple):
    """forks: the nodes with several children, those with the most first. pairs: [elders, younger] for each turn, the
    drafts of that turn and of the next, where a fork has both. By node [N+1], −1 for none: fork_of, its index in
    ``forks``, and youngest, the child tried last. depth: the depth of the deepest node."""

    forks: list[int]
    pairs: list[list[list[int]]]
    fork_of: list[int]
    youngest: list[int]
    depth: int

    @staticmethod
    def from_parents(parents: Sequence[int]) -> "Siblings":
        """Groups the nodes of a tree by their parents.

        >>> Siblings.from_parents([0, 0, 1])  # two siblings, and a child of the first
        Siblings(forks=[0], pairs=[[[0], [1]]], fork_of=[0, -1, -1, -1], youngest=[1, 2, -1, -1], depth=2)
        """
        children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
        depths = [0]
        for draft, parent in enumerate(parents):
            children[parent].append(draft)
            depths.append(depths[parent] + 1)
        forks = sorted((n for n, c in enumerate(children) if len(c) > 1), key=lambda n: -len(children[n]))
        pairs = []
        for turn in range(1, max(map(len, children))):
            members = [children[n] for n in forks if len(children[n]) > turn]
            pairs.append([[c[turn - 1] for c in members], [c[turn] for c in members]])
        fork_of = [forks.index(n) if n in forks else -1 for n in range(len(children))]
        return Siblings(forks, pairs, fork_of, [c[-1] if c else -1 for c in children], max(depths))
