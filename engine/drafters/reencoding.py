"""Drafts in the draft's own tokens and encodes their text for the target: string-level exact match (Timor et al. 2025).

The drafts are one-hot, so the output is exact at any temperature, however the text was encoded. The draft takes its
most probable tokens; a repetition penalty is the target's alone. Encoding is the host's work by nature: on a device a
round waits once more, for the drafted tokens.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from engine.config import SamplingParams
from engine.device import to_device, to_host
from engine.drafters.base import Draft, DrafterSetup, DraftPolicy
from engine.drafters.foreign_model import ForeignModelDrafter


class ReencodingDrafter(ForeignModelDrafter):
    """γ steps of the draft give up to γ tokens of the target, and of a coarser draft the first γ."""

    is_scored = False

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        own = {"sampling": SamplingParams(), "vocab_size": self.runner.vocab_size, "history": None}
        super().start(prompt, replace(setup, **own, reader=None))  # a reader knows only the target's tokens
        self._ids, self._ends, self._token_ends = [], [], []

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        draft = super().propose(text, gamma, policy)
        self._ids = to_host(draft.tokens).tolist() if len(draft) else []
        tokens, texts = self.translation.reencode(self._ids)
        tokens, self._token_ends = tokens[:gamma], [*accumulate(map(len, texts))][:gamma]
        self._ends = [*accumulate(map(len, self.translation.draft_texts(self._ids)))]
        keys = draft.keys and tuple(self._least(draft.keys))
        return replace(draft, tokens=to_device(tokens, self.setup.device), q=None, keys=keys)

    def _least(self, keys: Sequence[Any]):
        """Yields the key of each token: the least of the drafted ones that its text comes from."""
        start = 0
        for end in self._token_ends:
            yield min(keys[self._drafted_before(start + 1) : self._drafted_before(end) + 1])
            start = end

    def _drafted_before(self, place: int) -> int:
        """Counts the drafted tokens that end before this place in the text."""
        return bisect_left(self._ends, place)

    def _accepted_ids(self, text: Sequence[int]) -> Sequence[int]:
        return self._ids[: self._accepted]

    def commit(self, accepted: int) -> None:
        """Keeps the draft's tokens whose bytes all lie in the accepted text."""
        super().commit(self._drafted_before(self._token_ends[accepted - 1] + 1) if accepted else 0)
