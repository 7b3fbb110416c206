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


class _EachStep:
    """A policy that decides about steps of the draft alone, because the target's tokens show later."""

    def __init__(self, policy: DraftPolicy):
        self._policy = policy

    def worth_verifying(self, path: Sequence) -> bool:
        return True

    def worth_drafting(self, path: Sequence) -> bool:
        return self._policy.worth_drafting(path)

    def tree_shape(self) -> None:
        return None


class ReencodingDrafter(ForeignModelDrafter):
    """γ steps of the draft give up to γ tokens of the target, and of a coarser draft the first γ."""

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        policy = None if setup.policy is None else _EachStep(setup.policy)
        own = replace(setup, sampling=SamplingParams(), vocab_size=self.runner.vocab_size, history=None, policy=policy)
        own = replace(own, reader=None)  # a reader knows only the target's tokens
        super().start(prompt, own)
        self._ids, self._ends, self._token_ends = [], [], []

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        draft = super().propose(committed, gamma, position)
        self._ids = to_host(draft.tokens).tolist() if len(draft) else []
        tokens, texts = self.translation.reencode(self._ids)
        tokens, self._token_ends = tokens[:gamma], [*accumulate(map(len, texts))][:gamma]
        self._ends = [*accumulate(map(len, self.translation.draft_texts(self._ids)))]
        keys = draft.confidence_classes and tuple(self._least(draft.confidence_classes))
        tokens = to_device(tokens, self.setup.device)
        return replace(draft, tokens=tokens, q=None, confidence_classes=keys)

    def _least(self, keys: Sequence[Any]):
        """Yields the key of each token: the least of the drafted ones that its text comes from."""
        start = 0
        for end in self._token_ends:
            yield min(keys[self._drafted_before(start + 1) : self._drafted_before(end) + 1])
            start = end

    def _drafted_before(self, place: int) -> int:
        """Counts the drafted tokens that end before this place in the text."""
        return bisect_left(self._ends, place)

    def _accepted_ids(self, committed: Sequence[int]) -> Sequence[int]:
        return self._ids[: self._accepted]

    def commit(self, accepted: int) -> None:
        """Keeps the draft's tokens whose bytes all lie in the accepted text."""
        super().commit(self._drafted_before(self._token_ends[accepted - 1] + 1) if accepted else 0)
