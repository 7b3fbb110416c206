"""Drafts with a block head: all guesses of a round from one pass of a small network (P-EAGLE, arXiv 2602.01469).

What an EAGLE chain learns by going on from its own state, masked slots guess without seeing the drafts between. Without
a bias, q of each place is known before any draft is drawn. With one (DSpark, arXiv 2607.05147) the places are drawn in
turn, and the draft of one place changes q of the next, which is known before that place is drawn.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

from engine.drafters.base import Draft, DraftPolicy, Keys
from engine.drafters.eagle_chain import EagleChainDrafter
from engine.models.heads.block import MASK


class BlockDrafter(EagleChainDrafter):
    """``runner`` runs the head (`engine.models.heads.block`)."""

    name = "block"
    is_parallel: ClassVar[bool] = True

    def keys(self) -> Keys:
        return super().keys()[: self.runner.model.slots] if self.runner.captured else super().keys()

    def next_inputs(self, state: torch.Tensor | None) -> dict[str, Any]:
        return {}

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        """Feeds the tokens committed since the last proposal with their features and, in the same pass, the masked
        slots, whose keys are then discarded."""
        runner, gamma = self.runner, min(gamma, self.runner.model.slots)
        ids, features = self._not_yet_fed(text)
        u, seen = self.uniforms(text, gamma), self.penalised_tokens()
        judge = None if runner.captured else policy

        def body(step: Callable) -> Draft:
            masked = F.pad(ids, (0, gamma - 1), value=MASK)
            rows = step(masked, 0, features=features)[0].split(1)

            def place(before: torch.Tensor, at: int):
                return (runner.model.add_bias(before, rows[at]) if at else rows[at]), None

            return self.draft(place, ids[-1:], {}, u, seen, judge)

        draft = runner.loop((len(ids), gamma, self.setup.sampling), len(ids) + gamma - 1, body)
        runner.rollback(len(text) - 1)
        return draft
