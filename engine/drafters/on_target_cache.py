"""Shares the loop of drafters that read the target's keys and values, and write their own after them as scratch.

The verify pass writes the same slots again. So such a drafter has nothing to catch up with after rounds that another
one drafted, and takes no memory of its own.
"""

from collections.abc import Sequence

import torch

from engine.drafters.autoregressive import AutoregressiveDrafter
from engine.drafters.base import Draft, DrafterSetup, DraftPolicy
from engine.models.decoder.runner import DecoderRunner


class OnTargetCache(AutoregressiveDrafter):
    """``runner`` runs the draft model on the cache of ``target``."""

    runner: DecoderRunner
    reads_prompt = False

    def __init__(self, runner: DecoderRunner, target: DecoderRunner):
        super().__init__(runner)
        self.target = target

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self.setup, self.runner.cache = setup, self.target.cache

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        length, pending = self.target.length, self.buffer("pending", text[-1:], torch.long)
        self.runner.rollback(len(text) - 1)
        draft = self.run_loop(pending, self.uniforms(text, gamma), policy)
        self.target.cache.length = length
        return draft

    def memory(self, capacity: int) -> int:
        return 0  # the cache is the target's

    def release(self) -> None:
        self.runner.cache = None
