"""Drafts with the target's own lower layers and a small exit head: early exit (LayerSkip, Elhoushi et al. 2024).

The keys and values that drafting writes into those layers are those that the verify pass writes there again: the same
weights read the same tokens. So the target's cache is the only one. The verify pass runs these layers again for all
rows: the last draft has not been through them, and on a CPU one row reads as many weights as several. With the states
of the other rows kept, a pass took 0.98 to 1.01 of its time (CPU time in turn, medians of 60, two of 30 layers, 2 to 5
rows), so they are not.
"""

from typing import ClassVar

from engine.drafters.base import PER_TOKEN
from engine.drafters.on_target_cache import OnTargetCache
from engine.models.decoder.runner import DecoderRunner


class ExitDrafter(OnTargetCache):
    """``runner`` runs the lower layers and the head (`engine.models.heads.exit`)."""

    name = "exit"
    # Shares of guesses that were right, by tenth of certainty: counted with the shipped head on 36 held-out replies.
    priors: ClassVar = {
        **OnTargetCache.priors,
        PER_TOKEN: 0.33,
        **dict(enumerate((0.06, 0.21, 0.32, 0.5, 0.56, 0.56, 0.51, 0.8, 0.85, 0.96))),
    }

    def __init__(self, runner: DecoderRunner, target: DecoderRunner):
        super().__init__(runner, target)
        self.target_ids = runner.model.target_ids
