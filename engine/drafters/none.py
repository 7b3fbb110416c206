"""Drafts nothing: the plain autoregressive baseline, through the same loop, kernels and cache as every other method."""

from collections.abc import Sequence

from engine.drafters.base import Drafter, Keys


class NoDrafter(Drafter):
    name = "none"

    def confidence_classes(self, committed: Sequence[int]) -> Keys:
        return None
