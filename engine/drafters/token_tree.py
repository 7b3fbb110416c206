"""Grows a tree of guesses where it pays, and keeps the best nodes: the dynamic tree of EAGLE-2 (Li et al. 2024).

A node's reach is the chance that it ends on the accepted path, by the acceptance measured so far. A tree grows level by
level, and a node is kept if its reach beats the cost of one more row of the target's pass: v(W + 1) − v(W), times the
tokens per cost of the recent rounds. So on a CPU it is mostly a chain, and where rows are nearly free it has up to 64
nodes. Lookup branches as well (`ngram.py`), to what followed earlier occurrences, but only with γ = auto.

At temperature 0, guesses are the likeliest words, and those with the most reach are kept in the end; this depends on
the tokens, so such drafts are one-hot. Above it, guesses are draws without replacement (`drawn_tree.py`). They are all
kept, and a shape says how many follow a node before they are drawn. With a fixed γ that shape is the tree of γ drafts
with the most accepted ones (`static_tree.py`), and at temperature 0 the γ nodes with the most reach. Knows no model.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch

from engine.config import MAX_NODES
from engine.device import to_device
from engine.drafters.base import PER_TOKEN, Draft, Estimates

MAX_CHILDREN = 10  # guesses after one node, and nodes of one level that go on, as in EAGLE-2
_FAINTEST = 5


@dataclass(eq=False, slots=True)
class Node:
    """One guess; the root is the last committed token. ``key``: its class of confidence."""

    token: int = -1
    parent: "Node | None" = None
    key: Hashable = None
    reach: float = 1.0
    depth: int = 0
    missed: float = 1.0  # chance that none of the children is right
    children: list["Node"] = field(default_factory=list)

    def path(self) -> list["Node"]:
        """Returns the guesses from the first one to this."""
        return [] if self.parent is None else [*self.parent.path(), self]


def confidence_class(rank: int, share: float) -> Hashable:
    """Returns the class of a guess that is tried after ``rank`` others and has ``share`` of the probability that they
    left.

    >>> confidence_class(0, 0.64), confidence_class(1, 0.3)  # a first guess by tenths, a later one by halvings
    (6, ('later', 1))
    """
    if rank == 0:
        return min(int(10 * share), 9)
    return "later", min(int(-math.log2(max(share, 1e-9))), _FAINTEST)


def sibling_key(rank: int) -> Hashable:
    """Returns the class of a draw that is tried after ``rank`` others, drawn without replacement."""
    return "sibling", rank


def is_first(key: Hashable) -> bool:
    """Returns whether a key is of a guess that is tried first, as all of a chain are."""
    return not isinstance(key, tuple)


class MostProbable:
    """Keeps the ``count`` guesses with the highest products of probabilities."""

    def __init__(self, count: int):
        self.count = count

    def chance(self, key: Hashable, share: float) -> float:
        return share

    def select(self, nodes: Sequence[Node]) -> list[Node]:
        return sorted(nodes, key=lambda node: -node.reach)[: self.count]  # stable: no node before its parent

    def to_expand(self, level: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
        selection = set(self.select(nodes))
        return [node for node in level if node in selection]


@dataclass(frozen=True, slots=True)
class Worthwhile:
    """Keeps the guesses that are worth their rows of the target's pass. All costs are in tokens that the same time
    yields on average. ``alpha``: a key's measured chance to be right when its turn comes; ``price``: the cost of
    scoring a number of drafts; ``step``: the cost of a draft step; ``limit``: nodes at most."""

    alpha: Callable[[Hashable], float]
    price: Callable[[int], float]
    step: float
    limit: int = MAX_NODES

    def chance(self, key: Hashable, share: float) -> float:
        return self.alpha(key)

    def row_cost(self, drafts: int) -> float:
        """Returns the cost of one more row; a noisy v(W) may fall, but no row is cheaper than none."""
        return max(0.0, self.price(drafts + 1) - self.price(drafts))

    def select(self, nodes: Sequence[Node]) -> list[Node]:
        best = sorted(nodes, key=lambda node: -node.reach)[: self.limit]
        gains = [tokens - self.price(n) for n, tokens in enumerate(accumulate(node.reach for node in best), start=1)]
        return best[: max(range(len(gains) + 1), key=lambda n: gains[n - 1] if n else 0.0)]

    def widths(self, level: Sequence[Node], firsts: Sequence[Hashable], drafts: int) -> list[int]:
        """Returns how many draws follow each node of ``level``, where a draw's chance to be accepted beats the cost
        of its row. ``firsts``: the key of each node's first draw; ``drafts``: how many the tree has already."""
        widths = []
        for node, first in zip(level, firsts, strict=True):
            left, width = node.reach, 0
            while drafts < self.limit and width < MAX_CHILDREN:
                chance = self.alpha(sibling_key(width) if width else first)
                if left * chance <= self.row_cost(drafts):
                    break
                left, width, drafts = left * (1 - chance), width + 1, drafts + 1
            widths.append(width)
        return widths

    def to_expand(self, level: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
        """Returns the last level's nodes after which one more guess would pay, if together they pay a draft step."""
        selection = self.select(nodes)
        if len(selection) >= self.limit:
            return []
        row, among = self.row_cost(len(selection)), set(selection)
        gains = [(node, node.reach * self.alpha(PER_TOKEN) - row) for node in level if node in among]
        worth = [(node, gain) for node, gain in gains if gain > 0]
        return [node for node, _ in worth] if sum(gain for _, gain in worth) >= self.step else []


class Plan:
    """A shape that is known beforehand, from a recording or from `static_tree`: ``parents`` as in `Draft`."""

    def __init__(self, parents: Sequence[int]):
        self._children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
        for node, parent in enumerate(parents, start=1):
            self._children[parent].append(node)
        self._number: dict[Node, int] = {}  # the nodes that belong to it, in the recorded order

    def chance(self, key: Hashable, share: float) -> float:
        return share

    def select(self, nodes: Sequence[Node]) -> list[Node]:
        for node in nodes:
            parent = self._number.get(node.parent) if node.depth > 1 else 0
            rank = node.parent.children.index(node) if node.parent else 0
            if parent is not None and rank < len(self._children[parent]):
                self._number[node] = self._children[parent][rank]
        return [node for node in nodes if node in self._number]

    def widths(self, level: Sequence[Node], firsts: Sequence[Hashable], drafts: int) -> list[int]:
        return [len(self._children[self._number.get(node, 0)]) for node in level]

    def to_expand(self, level: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
        selection = set(self.select(nodes))
        return [node for node in level if node in selection and self._children[self._number[node]]]


Shape = MostProbable | Worthwhile | Plan


class TokenTree:
    """A tree as it grows. ``shape`` decides which of its nodes go on, and which are kept. ``is_broken``: a level ended
    because the draft model's numbers were not finite."""

    def __init__(self, shape: Shape):
        self.shape, self.root = shape, Node()
        self.nodes: list[Node] = []
        self.is_broken = False

    def add(self, parent: Node, tokens: Sequence[int], probabilities: Sequence[float]) -> list[Node]:
        """Adds the guesses after ``parent``, the most probable first. One is right only if those before it are wrong,
        and has then its share of the probability that they left."""
        left = 1.0
        for rank, (token, probability) in enumerate(zip(tokens, probabilities, strict=True)):
            share = min(1.0, probability / max(left, 1e-9))
            self.append(parent, token, confidence_class(rank, share), share)
            left -= probability
        return parent.children

    def append(self, parent: Node, token: int, key: Hashable, share: float) -> Node:
        """Adds one guess after ``parent``, to be tried after those that it has; ``share``: its chance to be right if
        they are wrong, as the drafter has it."""
        chance, elder = self.shape.chance(key, share), parent.children[-1] if parent.children else parent
        node = Node(token, parent, key, min(parent.reach * parent.missed * chance, elder.reach), parent.depth + 1)
        parent.missed *= 1 - chance
        parent.children.append(node)
        self.nodes.append(node)
        return node

    def to_expand(self, level: Sequence[Node]) -> list[Node]:
        return self.shape.to_expand(level, self.nodes)[:MAX_CHILDREN]

    def tokens_of(self, nodes: Sequence[Node], device: str | torch.device) -> torch.Tensor:
        return to_device([node.token for node in nodes], device)

    def q_of(self, nodes: Sequence[Node]) -> torch.Tensor | None:
        """Returns None, because guesses that are chosen are one-hot."""
        return None

    def draft(self, most: int, device: str | torch.device) -> Draft:
        """Returns the kept nodes, ``most`` at most, as a draft: a chain where they do not branch."""
        nodes, parents = self.select()
        nodes, parents, estimates = nodes[:most], parents[:most], None
        if isinstance(self.shape, Worthwhile):
            estimates = Estimates(tuple(node.reach for node in nodes), self.shape.row_cost(len(nodes)))
        tokens, keys = self.tokens_of(nodes, device), tuple(node.key for node in nodes)
        is_chain = parents == tuple(range(len(parents)))
        return Draft(tokens, self.q_of(nodes), None if is_chain else parents, keys=keys, estimates=estimates)

    def selection(self) -> list[Node]:
        return self.shape.select(self.nodes)

    def select(self) -> tuple[list[Node], tuple[int, ...]]:
        """Returns the nodes that are kept and their parents' numbers, the likeliest path first, so that most accepted
        paths are a beginning of the list and need not be moved in the cache."""
        selection = set(self.selection())
        order: list[Node] = []
        parents: list[int] = []

        def visit(node: Node, number: int) -> None:
            for child in node.children:
                if child in selection:
                    order.append(child)
                    parents.append(number)
                    visit(child, len(order))

        visit(self.root, 0)
        return order, tuple(parents)
