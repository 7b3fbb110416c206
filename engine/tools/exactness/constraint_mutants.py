"""Defines mutants of a constraint: one mistake each in how masks and drafts go together.

Each takes the place of `Constrained` through `Rules`. All but the last break answers, so that their JSON cannot be
parsed; the last leaves every answer valid and changes how often each comes.
"""

from dataclasses import replace

import numpy as np
import torch

from engine.decoding.constrained import Allowed, Constrained
from engine.decoding.loop import Rules
from engine.drafters.base import Draft
from engine.sampling.constraint import GrammarReader, Path, set_bit
from engine.tools.exactness.mutants import Mutant
from engine.tools.exactness.results import MISTAKES


class MaskStays(Constrained):
    def mask(self, path: Path) -> np.ndarray:
        return self.reader.allowed_after()


class ClosingOnly(Constrained):
    def mask_draft(self, draft: Draft, is_window: bool = False) -> Allowed:
        """Cuts nothing off; every draft counts as allowed."""
        allowed = super().mask_draft(draft, is_window=True)
        for node, token in _followers(draft):
            set_bit(allowed.bits[node], token, True)
        return Allowed(draft, allowed.bits)


class TargetUnmasked(Constrained):
    def mask_target(self, logits: torch.Tensor, allowed: Allowed) -> torch.Tensor:
        return logits


class RequestsMask(Constrained):
    def mask_draft(self, draft: Draft, is_window: bool = False) -> Allowed:
        """Tests each draft under its own mask, but draws the token in its place under the round's."""
        allowed = super().mask_draft(draft, is_window)
        followers = _followers(allowed.draft)
        for node in {node for node, _ in followers}:
            allowed.bits[node] = allowed.bits[0]
        for node, token in followers:
            set_bit(allowed.bits[node], token, True)
        return allowed


class EndsEarly(Constrained):
    def __init__(self, reader: GrammarReader, vocab_size: int, device: str, drafts: bool = False):
        super().__init__(reader, vocab_size, device, drafts)
        reader.may_end = lambda: True


class CutUnscaled(Constrained):
    def mask_draft(self, draft: Draft, is_window: bool = False) -> Allowed:
        """Cuts forbidden drafts off, and tests the rest with the q that all were drawn from."""
        allowed = super().mask_draft(draft, is_window)
        N = len(allowed.draft)
        if draft.q is None or draft.parents is not None or not N:
            return allowed
        return allowed._replace(draft=replace(allowed.draft, q=draft.q[:N]))


def _followers(draft: Draft) -> list[tuple[int, int]]:
    """Returns the node that each draft follows, and the draft's token."""
    return list(zip(draft.parent_nodes, draft.tokens.tolist(), strict=True))


def _mutant(name: str, constrained: type[Constrained]) -> Mutant:
    return Mutant(name, Rules(constrained=constrained))


CONSTRAINT_MUTANTS = (
    _mutant("mask-stays", MaskStays),
    _mutant("closing-only", ClosingOnly),
    _mutant("target-unmasked", TargetUnmasked),
    _mutant("requests-mask", RequestsMask),
    _mutant("ends-early", EndsEarly),
    _mutant("cut-unscaled", CutUnscaled),
)
assert [mutant.name for mutant in CONSTRAINT_MUTANTS] == [name for name, m in MISTAKES.items() if m.masks]
