"""Prompt lookup (Saxena 2023): what followed the last time these tokens appeared probably follows again.

No model and no cost: q is one-hot. It pays where the answer quotes the question: summaries, edits, answers from a text.
"""

from collections.abc import Sequence
from typing import ClassVar

from engine.device import to_device
from engine.drafters.base import Draft, Setup

LONGEST = 8
# Share of places by the length of the longest match there (0: none), counted over 62,000 tokens that the embedded
# target wrote, about a third of them to requests about a text.
_SHARES = {0: 0.22, 1: 0.24, 2: 0.11, 3: 0.07, 4: 0.05, 5: 0.04, 6: 0.03, 7: 0.02, 8: 0.22}


def usual_places(longest: int) -> list[tuple[float, list[float]]]:
    """(share, chance that draft 1, 2, … ``longest`` is kept there), by the length of the match that is found."""
    chances = [NgramDrafter.priors[min(n, LONGEST)] for n in range(1, LONGEST + longest + 1)]
    return [(share, chances[n - 1 : n - 1 + longest] if n else []) for n, share in _SHARES.items()]


class NgramDrafter:
    """Longest suffix match first, the most recent occurrence of it, over prompt and output.

    >>> # … the quick brown fox … the quick  →  proposes " brown", " fox", …
    """

    name = "ngram"
    # Chance that a guess is kept, by length of the match that found it: counted over 100,000 tokens that the embedded
    # target wrote (greedy and sampled), to questions that mostly do not quote a text.
    priors: ClassVar = {1: 0.16, 2: 0.42, 3: 0.52, 4: 0.62, 5: 0.67, 6: 0.71, 7: 0.75, 8: 0.92}

    def start(self, prompt: Sequence[int], setup: Setup) -> None:
        self._device = setup.device
        self._follow: list[dict[tuple[int, ...], int]] = [{} for _ in range(LONGEST + 1)]  # n-gram -> index after it
        self._indexed = 0  # n-grams ending before this index are in the tables
        self._found = 0

    def situation(self, committed: Sequence[int]):
        """The length of the longest match, or None. The last token's own n-gram is not indexed yet: it has no
        successor, and would match itself."""
        for end in range(self._indexed + 1, len(committed)):
            for n in range(1, min(LONGEST, end) + 1):
                self._follow[n][tuple(committed[end - n : end])] = end
        self._indexed = max(self._indexed, len(committed) - 1)
        for n in range(min(LONGEST, len(committed) - 1), 0, -1):
            found = self._follow[n].get(tuple(committed[-n:]))
            if found is not None:
                self._found = found
                return n
        return None

    def deeper(self, situation: int) -> int:
        """A kept guess makes the match one longer."""
        return min(situation + 1, LONGEST)

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        """Copies from behind the match, and goes on into its own copy: a repeating pattern is continued."""
        tokens = list(committed[self._found : self._found + gamma])
        while len(tokens) < gamma:
            tokens.append(tokens[self._found + len(tokens) - len(committed)])
        return Draft(to_device(tokens, self._device))

    def commit(self, accepted: int) -> None:
        pass

    def release(self) -> None:
        self._follow = []
