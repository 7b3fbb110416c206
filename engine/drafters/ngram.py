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
        self._device = setup.device
        self._follow: list[dict[tuple[int, ...], int]] = [{} for _ in range(LONGEST + 1)]  # n-gram -> index after it
        self._indexed = 0  # n-grams ending before this index are in the tables
        self._match = 0  # index of the token that followed the match

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
                self._match = after
                return _GROWING[n - 1 :]
        return None

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        """Copies the tokens after the match, and then its own copy, so that a repeating pattern is continued."""
        tokens = list(committed[self._match : self._match + gamma])
        while len(tokens) < gamma:
            tokens.append(tokens[self._match + len(tokens) - len(committed)])
        return Draft(to_device(tokens, self._device))

    def release(self) -> None:
        self._follow = []
