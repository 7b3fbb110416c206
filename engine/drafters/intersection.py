"""Drafts tokens that both vocabularies have: token-level intersection (Timor et al. 2025), exact at any temperature.

The draft's logits of all other tokens are dropped before temperature, top-k and top-p, so q is a distribution over the
common tokens and each draft is drawn from that very q. It costs acceptance: at most Σ min(p, q) over the common ones.
"""

from collections.abc import Sequence

import torch

from engine.device import to_device
from engine.drafters.base import DrafterSetup
from engine.drafters.foreign_model import ForeignModelDrafter


class IntersectionDrafter(ForeignModelDrafter):
    """Drafts without copying from the device: the host translates only committed ids."""

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        super().start(prompt, setup)
        if self.target_ids is None or self._words_of != (setup.vocab_size, setup.device):
            self._make_tables(setup)

    def _make_tables(self, setup: DrafterSetup) -> None:
        rows = self.runner.vocab_size
        pairs = [(t, d) for t, d in sorted(self.translation.common.items()) if t < setup.vocab_size and d < rows]
        ours, theirs = zip(*pairs, strict=True)
        self.target_ids, self._columns = to_device(ours, setup.device), to_device(theirs, setup.device)
        self._column_of = torch.zeros(setup.vocab_size, dtype=torch.long, device=setup.device)
        self._column_of[self.target_ids] = self._columns
        self._words_of = setup.vocab_size, setup.device

    def own_id(self, token: torch.Tensor) -> torch.Tensor:
        return self._column_of[token]

    def guesses(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[:, self._columns]

    def _accepted_ids(self, text: Sequence[int]) -> Sequence[int]:
        first = self._reading.count
        return [self.translation.common[i] for i in text[first : first + self._accepted]]
