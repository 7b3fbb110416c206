"""Drafts the text that must come, where a run's constraint leaves no other: keys, quotes, brackets.

One possible text does not mean one possible token, because it can be cut in several ways. So what the tokenizer would
make of it is a guess like any other, one-hot and tested.
"""

from collections.abc import Sequence
from typing import ClassVar

from engine.device import to_device
from engine.drafters.base import Draft, Drafter, DrafterSetup

FORCED = "forced"  # the only confidence key


class GrammarDrafter(Drafter):
    name = "grammar"
    priors: ClassVar = {FORCED: 0.95}

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self._setup, self._tokens = setup, []

    def confidence_classes(self, committed: Sequence[int]) -> Sequence[str] | None:
        reader = self._setup.reader
        self._tokens = reader.forced_tokens() if reader else []
        return (FORCED,) * len(self._tokens) or None

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        return Draft(to_device(self._tokens[:gamma], self._setup.device))
