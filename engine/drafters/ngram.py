"""Drafts by prompt lookup (Saxena 2023): proposes the tokens that followed the last occurrence of the current suffix.

Needs no model, and q is one-hot. It pays where the answer quotes the prompt: summaries, edits, answers from a text.
"""

from collections.abc import Sequence
from typing import ClassVar

from engine.config import MAX_GAMMA
from engine.device import to_device
from engine.drafters.base import Draft, Drafter, DrafterSetup

LONGEST = 8  # tokens of the longest match that is looked up
_GROWING = (*range(1, LONGEST), *(LONGEST,) * MAX_GAMMA)


class NgramDrafter(Drafter):
    """Takes the longest matching suffix first, and its most recent occurrence, over prompt and output.

    >>> # … the quick brown fox … the quick  →  proposes " brown", " fox", …
    """

    name = "ngram"
    # Acceptance rate by length of the match: counted over 100,000 tokens written by the embedded target (greedy and
    # sampled), in answers that mostly do not quote a text.
    priors: ClassVar = {1: 0.16, 2: 0.42, 3: 0.52, 4: 0.62, 5: 0.67, 6: 0.71, 7: 0.75, 8: 0.92}

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self._setup = setup
        self._follow: list[dict[tuple[int, ...], int]] = [{} for _ in range(LONGEST + 1)]  # n-gram -> index after it
        self._indexed = max(setup.first - 1, 0)  # n-grams up to this index are in the tables
        self._tokens: list[int] = []  # the continuation of the match

    def confidence_keys(self, committed: Sequence[int]) -> Sequence[int] | None:
        """Returns the length of the longest match, and how it grows with every accepted draft; or None. The last
        token's own n-gram is not indexed yet, because it has no successor and would match itself."""
        for end in range(self._indexed + 1, len(committed)):
            for n in range(1, min(LONGEST, end) + 1):
                self._follow[n][tuple(committed[end - n : end])] = end
        self._indexed = max(self._indexed, len(committed) - 1)
        for n in range(min(LONGEST, len(committed) - 1), 0, -1):
            after = self._follow[n].get(tuple(committed[-n:]))
            if after is not None:
                self._tokens = self._continuation(committed, after)
                return _GROWING[n - 1 : n - 1 + len(self._tokens)] or None
        return None

    def _continuation(self, committed: Sequence[int], after: int) -> list[int]:
        """The tokens from index ``after`` on, then their own copy, so that a repeating pattern is continued; up to the
        end of a text, and without the marks of the chat template."""
        tokens = []
        while len(tokens) < MAX_GAMMA:
            at = after + len(tokens)
            token = committed[at] if at < len(committed) else tokens[at - len(committed)]
            if token in self._setup.control and token not in self._setup.ends:
                break
            tokens.append(token)
            if token in self._setup.ends:
                break
        return tokens

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        return Draft(to_device(self._tokens[:gamma], self._setup.device))

    def release(self) -> None:
        self._follow = []
