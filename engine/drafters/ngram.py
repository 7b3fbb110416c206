"""Drafts by prompt lookup (Saxena 2023): proposes the tokens that followed the last occurrence of the current suffix.

With γ = auto the other tokens that followed it become further guesses, if they are worth their rows; a fixed γ is
always a chain. Needs no model, and q is one-hot. It pays where the answer quotes the prompt: summaries, edits, answers
from a text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import ClassVar

from engine.config import MAX_GAMMA, MAX_NODES
from engine.device import to_device
from engine.drafters.base import Draft, Drafter, DrafterSetup, Keys
from engine.drafters.token_tree import Shape, TokenTree, Worthwhile

LONGEST = 8  # tokens of the longest match that is looked up
_GROWING = (*range(1, LONGEST), *(LONGEST,) * MAX_GAMMA)
_OCCURRENCES = 8  # that a tree is made of
_DEPTH = 8  # tokens that are copied from an earlier occurrence than the last


class NgramDrafter(Drafter):
    """Takes the longest matching suffix first, and its most recent occurrence, over prompt and output.

    >>> # … the quick brown fox … the quick  →  proposes " brown", " fox", …
    """

    name = "ngram"
    # Acceptance rate by length of the match: counted over 100,000 tokens written by the embedded target (greedy and
    # sampled), in answers that mostly do not quote a text. "later": of another follower once those before it are wrong,
    # counted in the same way over 150,000 tokens.
    priors: ClassVar = {1: 0.16, 2: 0.42, 3: 0.52, 4: 0.62, 5: 0.67, 6: 0.71, 7: 0.75, 8: 0.92} | {
        ("later", n): a for n, a in enumerate((0.1, 0.19, 0.19, 0.26, 0.23, 0.24, 0.34, 0.47), start=1)
    }

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self._setup = setup
        self._follow: list[dict[tuple[int, ...], int]] = [{} for _ in range(LONGEST + 1)]  # n-gram -> index after it
        self._earlier: list[dict[int, int]] = [{} for _ in range(LONGEST + 1)]  # that index -> the one before it
        self._indexed = max(setup.copy_from - 1, 0)  # n-grams up to this index are in the tables
        self._tokens: list[int] = []  # the continuation of the match

    def confidence_classes(self, committed: Sequence[int]) -> Keys:
        """Returns the length of the longest match, and how it grows with every accepted draft; or None. The last
        token's own n-gram is not indexed yet, because it has no successor and would match itself."""
        for end in range(self._indexed + 1, len(committed)):
            for n in range(1, min(LONGEST, end) + 1):
                self._index(n, tuple(committed[end - n : end]), end)
        self._indexed = max(self._indexed, len(committed) - 1)
        n, after = next(self._occurrences(committed), (0, 0))
        self._tokens = self._continuation(committed, after, MAX_GAMMA) if n else []
        return _GROWING[n - 1 : n - 1 + len(self._tokens)] or None

    def _index(self, n: int, ngram: tuple[int, ...], end: int) -> None:
        if ngram in self._follow[n]:
            self._earlier[n][end] = self._follow[n][ngram]
        self._follow[n][ngram] = end

    def _occurrences(self, committed: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yields (n, the index after it) of each earlier occurrence of the last n tokens: the longest first, then the
        most recent. One that matches in n tokens comes again for each smaller n."""
        for n in range(min(LONGEST, len(committed) - 1), 0, -1):
            after = self._follow[n].get(tuple(committed[-n:]))
            while after is not None:
                yield n, after
                after = self._earlier[n].get(after)

    def _continuation(self, committed: Sequence[int], after: int, limit: int) -> list[int]:
        """Returns the tokens from index ``after`` on, then their own copy, so that a repeating pattern is continued; up
        to the end of a text, and without the marks of the chat template."""
        tokens = []
        while len(tokens) < limit:
            at = after + len(tokens)
            token = committed[at] if at < len(committed) else tokens[at - len(committed)]
            if token in self._setup.control_ids and token not in self._setup.eos_ids:
                break
            tokens.append(token)
            if token in self._setup.eos_ids:
                break
        return tokens

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        shape = self._shape()
        if shape is None:
            return Draft(to_device(self._tokens[:gamma], self._setup.device))
        nodes, parents = self._tree(shape, committed, gamma).select()
        free_slots = min(MAX_NODES, self._setup.capacity - len(committed) - 1)
        nodes, parents = nodes[:free_slots], parents[:free_slots]
        draft = Draft(
            to_device([node.token for node in nodes], self._setup.device),
            parents=None if parents == tuple(range(len(parents))) else parents,
            confidence_classes=tuple(node.key for node in nodes),
        )
        if draft.parents is None or not isinstance(shape, Worthwhile):
            return draft  # a chain, or repeated from a trace
        return replace(draft, expected=tuple(node.reach for node in nodes), row_cost=shape.row_cost(len(nodes)))

    def _shape(self) -> Shape | None:
        """Returns the rule that cuts a tree to size; None for a chain."""
        return self._setup.policy.tree_shape() if self._setup.policy and self._setup.trees else None

    def _tree(self, shape: Shape, committed: Sequence[int], gamma: int) -> TokenTree:
        """Builds the tree of the tokens that followed the occurrences; the first one goes at most ``gamma`` deep."""
        tree, occurrences = TokenTree(shape), islice(self._occurrences(committed), _OCCURRENCES)
        first, _ = next(occurrences)
        self._insert(tree, first, self._tokens[:gamma])
        for n, after in occurrences:
            self._insert(tree, n, self._continuation(committed, after, min(gamma, _DEPTH)))
        return tree

    def _insert(self, tree: TokenTree, n: int, tokens: Sequence[int]) -> None:
        """Adds a path of guesses; ``n``: the length of the match before it."""
        node = tree.root
        for token in tokens:
            known = next((child for child in node.children if child.token == token), None)
            length = min(n + node.depth, LONGEST)
            key = ("later", length) if node.children else length
            node = known or tree.append(node, token, key, self.priors[key])

    def release(self) -> None:
        self._follow, self._earlier = [], []
