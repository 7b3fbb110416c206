"""Drafts nothing: the plain autoregressive baseline, through the same loop, kernels and cache as every other method."""

from collections.abc import Sequence
from typing import Any

from engine.drafters.base import Drafter


class NoDrafter(Drafter):
    name = "none"

    def confidence_classes(self, committed: Sequence[int]) -> Any:
        return None
