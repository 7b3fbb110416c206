"""Drafts with the target's own int4 copy: no training, and nearly always right. (QSpec, Zhao et al. 2024, shares like
this; there both copies have 4-bit weights.)
"""

from typing import ClassVar

from engine.drafters.base import PER_TOKEN
from engine.drafters.on_target_cache import OnTargetCache

_ACCEPTANCE = (0.9, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995)  # by tenth of certainty


class QuantisedDrafter(OnTargetCache):
    """``runner`` runs the copy."""

    name = "quantised"
    priors: ClassVar = {PER_TOKEN: 0.97, **dict(enumerate(_ACCEPTANCE))}
