"""Drafts with a model of another tokenizer: the part that `intersection.py` and `reencoding.py` share.

The model reads the committed text in its own tokens. Drafts that were accepted stay in its cache as they were drafted;
the text after them is encoded again, from the place where they end.
"""

from collections.abc import Sequence
from typing import Any

import torch

from engine.drafters.autoregressive import AutoregressiveDrafter
from engine.drafters.base import Draft, DrafterSetup, DraftOffer, DraftPolicy
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.translation import Reading, Translation
from engine.models.decoder.runner import Runner

_STRETCH = 2  # tokens of the draft for each of the target's that its cache has room for


class ForeignModelDrafter(DraftModelDrafter):
    """Drafting ends for good when its cache or its context is full of its own, perhaps shorter, tokens."""

    def __init__(self, runner: Runner, translation: Translation):
        super().__init__(runner)
        self.translation = translation
        self._reading: Any = None  # a Reading while a run is under way
        self._is_full, self._accepted = False, 0  # how many of its own tokens were accepted since the last proposal

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self.setup, self._reading = setup, Reading(self.translation, prompt)
        self._accepted = 0
        ids, more = self._reading.ids, _STRETCH * max(1, setup.capacity - len(prompt))
        self._slots = min(len(ids) + more, self.runner.max_length)
        del ids[: max(0, len(ids) - max(self._slots - more, self._slots // 2))]  # only the end of a long text is read
        self.runner.reset(self._slots)
        setup.read(self.runner, self._clamp(ids[:-1]))
        self._read = len(ids)

    def offer(self, text: Sequence[int]) -> DraftOffer | None:
        """Returns None also inside a character, because the draft may write its bytes in other tokens."""
        return None if self._is_full or self.translation.ends_inside_a_character(text) else super().offer(text)

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        own, self._accepted = self._reading.read(text, self._accepted_ids(text)), 0
        gamma = min(gamma, self._slots - len(own))
        if gamma < 1:
            self._is_full = True
            return Draft(torch.zeros(0, dtype=torch.long, device=self.setup.device))
        return self._go_on(own, self.uniforms(text, gamma), policy)

    def _accepted_ids(self, text: Sequence[int]) -> Sequence[int]:
        """Returns the draft's own ids of the ``_accepted`` tokens."""
        raise NotImplementedError

    def commit(self, accepted: int) -> None:
        """Commits ``accepted`` of the draft's own tokens."""
        super().commit(accepted)
        self._accepted = accepted

    def release(self) -> None:
        super().release()
        self._reading, self._is_full = None, False

    def memory(self, capacity: int) -> int:
        return AutoregressiveDrafter.memory(self, min(_STRETCH * capacity, self.runner.max_length))
