"""Drafts with an EAGLE-3 head: one decoder layer that reads the target's own hidden states (Li et al. 2025).

Position t of the head reads the target's features of token t and the embedding of token t + 1. While drafting, its own
outgoing state replaces the features. Once the target has scored those tokens, the next round feeds them again with the
target's features and overwrites their keys.
"""

from collections.abc import Sequence
from typing import Any

import torch

from engine.drafters.autoregressive import LONGEST_CATCH_UP, AutoregressiveDrafter
from engine.drafters.base import Draft, DrafterSetup, DraftPolicy
from engine.models.decoder.runner import DecoderRunner


class EagleChainDrafter(AutoregressiveDrafter):
    """``runner`` runs the head; ``target`` stores the features of every token it has scored."""

    name, shortest = "eagle-chain", 2  # before that the target has read nothing
    runner: DecoderRunner
    target_ids: torch.Tensor

    def __init__(self, runner: DecoderRunner, target: DecoderRunner):
        super().__init__(runner)
        self.target, self.target_ids = target, runner.model.target_ids

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        super().start(prompt, setup)
        self._catch_up(prompt, len(prompt) - 2)

    def _catch_up(self, text: Sequence[int], end: int) -> None:
        """Feeds the positions up to ``end`` in large passes, without computing logits."""
        start = self.runner.length
        if end > start:
            self.runner.prefill(text[start + 1 : end + 1], features=self._features(start, end))

    def _features(self, start: int, end: int) -> torch.Tensor:
        return self.target.features(self.runner.model.reads, start, end)

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        """Feeds the tokens committed since the last proposal with their features, then drafts from its own state."""
        ids, features = self._not_yet_fed(text)
        draft = self.run_loop(ids, self.uniforms(text, gamma), policy, features=features)
        self.runner.rollback(len(text) - 1)  # the next round feeds the drafted positions again, with features
        return draft

    def next_inputs(self, state: torch.Tensor | None) -> dict[str, Any]:
        return {"state": state}

    def _not_yet_fed(self, text: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the tokens committed since the last proposal, and their features. Catches up first on many."""
        runner, known = self.runner, len(text) - 1  # positions whose features the target has
        if known - runner.length > LONGEST_CATCH_UP:
            self._catch_up(text, known - 1)
        runner.rollback(min(runner.length, known - 1))  # a repeated proposal feeds the last position again
        start = runner.length
        ids = self.buffer("ids", text[start + 1 :], torch.long)
        return ids, self.copy_to_buffer("features", self._features(start, known))
