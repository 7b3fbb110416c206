"""Drafts by prompt lookup (Saxena 2023): proposes the tokens that followed the last occurrence of the current suffix.

With γ = auto the other tokens that followed it become further guesses, if they are worth their rows; a fixed γ is
always a chain. Needs no model, and q is one-hot. It pays where the answer quotes the prompt: summaries, edits, answers
from a text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import ClassVar

from engine.config import MAX_GAMMA, MAX_NODES, NGRAM_LONGEST
from engine.device import to_device
from engine.drafters.base import Draft, Drafter, DrafterSetup, DraftOffer, DraftPolicy
from engine.drafters.token_tree import Shape, TokenTree

_GROWING = (*range(1, NGRAM_LONGEST), *(NGRAM_LONGEST,) * MAX_GAMMA)
_OCCURRENCES = 8  # that a tree is made of
_DEPTH = 8  # tokens that are copied from an earlier occurrence than the last


class NgramDrafter(Drafter):
    """Takes the longest matching suffix first, and its most recent occurrence, over prompt and output.

    For example, after “… the quick brown fox … the quick” it proposes “ brown”, “ fox”, …
    """

    name = "ngram"
    # Acceptance rate by length of the match: counted over 100,000 tokens written by the embedded target (greedy and
    # sampled), in answers that mostly do not quote a text. "later": of another follower once those before it are wrong,
    # counted in the same way over 150,000 tokens.
    priors: ClassVar = {1: 0.16, 2: 0.42, 3: 0.52, 4: 0.62, 5: 0.67, 6: 0.71, 7: 0.75, 8: 0.92} | {
        ("later", n): a for n, a in enumerate((0.1, 0.19, 0.19, 0.26, 0.23, 0.24, 0.34, 0.47), start=1)
    }

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self.setup = setup
        self._follow: list[dict[tuple[int, ...], int]] = [{} for _ in range(NGRAM_LONGEST + 1)]  # -> index after it
        self._earlier: list[dict[int, int]] = [{} for _ in range(NGRAM_LONGEST + 1)]  # that index -> the one before it
        self._indexed = max(setup.copy_from - 1, 0)  # n-grams up to this index are in the tables

    def offer(self, text: Sequence[int]) -> DraftOffer | None:
        """Offers what followed the longest match; its keys are the length of that, and how it grows with every accepted
        draft. The last token's own n-gram is not indexed yet, because it has no successor and would match itself."""
        for end in range(self._indexed + 1, len(text)):
            for n in range(1, min(NGRAM_LONGEST, end) + 1):
                self._index(n, tuple(text[end - n : end]), end)
        self._indexed = max(self._indexed, len(text) - 1)
        n, after = next(self._occurrences(text), (0, 0))
        tokens = self._continuation(text, after, MAX_GAMMA) if n else []
        keys = _GROWING[n - 1 : n - 1 + len(tokens)]
        return DraftOffer(self, keys, partial(self._draft, text, tokens)) if tokens else None

    def _index(self, n: int, ngram: tuple[int, ...], end: int) -> None:
        if ngram in self._follow[n]:
            self._earlier[n][end] = self._follow[n][ngram]
        self._follow[n][ngram] = end

    def _occurrences(self, text: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yields (n, the index after it) of each earlier occurrence of the last n tokens: the longest first, then the
        most recent. One that matches in n tokens comes again for each smaller n."""
        for n in range(min(NGRAM_LONGEST, len(text) - 1), 0, -1):
            after = self._follow[n].get(tuple(text[-n:]))
            while after is not None:
                yield n, after
                after = self._earlier[n].get(after)

    def _continuation(self, text: Sequence[int], after: int, limit: int) -> list[int]:
        """Returns the tokens from index ``after`` on, then their own copy, so that a repeating pattern is continued; up
        to the end of a text, and without the marks of the chat template."""
        tokens = []
        while len(tokens) < limit:
            at = after + len(tokens)
            token = text[at] if at < len(text) else tokens[at - len(text)]
            if token in self.setup.control_ids and token not in self.setup.eos_ids:
                break
            tokens.append(token)
            if token in self.setup.eos_ids:
                break
        return tokens

    def _draft(self, text: Sequence[int], tokens: Sequence[int], gamma: int, policy: DraftPolicy | None) -> Draft:
        shape = policy.tree_shape() if policy and self.setup.trees else None
        if shape is None:
            return Draft(to_device(tokens[:gamma], self.setup.device))
        free_slots = min(MAX_NODES, self.setup.capacity - len(text) - 1)
        draft = self._tree(shape, text, tokens, gamma).draft(free_slots, self.setup.device)
        return replace(draft, estimates=None) if draft.parents is None else draft

    def _tree(self, shape: Shape, text: Sequence[int], tokens: Sequence[int], gamma: int) -> TokenTree:
        """Builds the tree of the tokens that followed the occurrences. The first one gave ``tokens``, and goes at most
        ``gamma`` deep."""
        tree, occurrences = TokenTree(shape), islice(self._occurrences(text), _OCCURRENCES)
        first, _ = next(occurrences)
        self._insert(tree, first, tokens[:gamma])
        for n, after in occurrences:
            self._insert(tree, n, self._continuation(text, after, min(gamma, _DEPTH)))
        return tree

    def _insert(self, tree: TokenTree, n: int, tokens: Sequence[int]) -> None:
        """Adds a path of guesses; ``n``: the length of the match before it."""
        node = tree.root
        for token in tokens:
            known = next((child for child in node.children if child.token == token), None)
            length = min(n + node.depth, NGRAM_LONGEST)
            key = ("later", length) if node.children else length
            node = known or tree.append(node, token, key, self.priors[key])

    def release(self) -> None:
        self._follow, self._earlier = [], []
