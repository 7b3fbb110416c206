"""Drafts the text that must come, where a run's constraint leaves no other: keys, quotes, brackets.

One possible text does not mean one possible token, because it can be cut in several ways. So what the tokenizer would
make of it is a guess like any other, one-hot and tested.
"""

from collections.abc import Sequence
from typing import ClassVar

from engine.device import to_device
from engine.drafters.base import Draft, Drafter, DraftOffer

FORCED = "forced"  # the only confidence key


class GrammarDrafter(Drafter):
    name = "grammar"
    priors: ClassVar = {FORCED: 0.95}

    def offer(self, text: Sequence[int]) -> DraftOffer | None:
        reader, device = self.setup.reader, self.setup.device
        tokens = reader.forced_tokens() if reader else []
        keys = (FORCED,) * len(tokens)
        return DraftOffer(self, keys, lambda gamma, _: Draft(to_device(tokens[:gamma], device))) if tokens else None
