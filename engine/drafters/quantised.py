"""Drafts with the target's own int4 copy: no training, and nearly always right. (QSpec, Zhao et al. 2024, shares like
this; there both copies have 4-bit weights.)

The copy reads the target's keys and values, and writes its own after them as scratch: the verify pass overwrites them.
So it has nothing to catch up with after rounds that another drafter drafted.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch

from engine.drafters.autoregressive import AutoregressiveDrafter
from engine.drafters.base import PER_TOKEN, Draft, DrafterSetup
from engine.models.runner import DecoderRunner

_ACCEPTANCE = (0.9, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995)  # by tenth of certainty


class QuantisedDrafter(AutoregressiveDrafter):
    """``runner`` runs the copy on the cache of ``target``."""

    name = "quantised"
    starts_late = False
    priors: ClassVar = {PER_TOKEN: 0.97, **dict(enumerate(_ACCEPTANCE))}

    def __init__(self, runner: DecoderRunner, target: DecoderRunner):
        super().__init__(runner)
        self.target = target

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self.setup, self.runner.cache = setup, self.target.cache

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        runner, length = self.runner, self.target.length
        runner.rollback(len(committed) - 1)
        pending = self._buffer("pending", committed[-1:], dtype=torch.long)
        u, seen = self._uniforms(position, gamma), self._seen()

        def body(step) -> Draft:
            offset = 0

            def advance(token):
                nonlocal offset
                logits, _ = step(pending if token is None else token, offset)
                offset += 1
                return logits

            return self._draft(advance, u, seen, gamma, self.setup.policy)

        draft = runner.loop((gamma, self.setup.sampling), gamma, body)
        self.target.cache.length = length
        return draft

    def memory(self, capacity: int) -> int:
        return 0  # the cache is the target's

    def release(self) -> None:
        self.runner.cache = None
