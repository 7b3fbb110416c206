"""Drafts with an independent model: a small LM with the target's tokenizer, sampled with the target's own settings.

Its vocabulary may be padded to another size than the target's; q is 0 for ids that it lacks. A draft with another
tokenizer is in `foreign_model.py`.
"""

from collections.abc import Sequence

import torch

from engine.drafters.autoregressive import LONGEST_CATCH_UP, AutoregressiveDrafter
from engine.drafters.base import Draft, DrafterSetup, DraftPolicy


class DraftModelDrafter(AutoregressiveDrafter):
    name = "lm"

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        super().start(prompt, setup)
        setup.read(self.runner, self._clamp(prompt[:-1]))
        self._read = len(prompt)

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        return self._go_on(text, self.uniforms(text, gamma), policy)

    def _go_on(self, text: Sequence[int], u: torch.Tensor, policy: DraftPolicy | None) -> Draft:
        """Feeds the draft's ids of the text that it has not read, then drafts one token a pass."""
        runner, self._read = self.runner, len(text)
        # A captured loop needs one width: two tokens cover both a rejected and a fully accepted round, where the first
        # of them rewrites keys that the cache already holds.
        runner.rollback(max(0, min(runner.length, len(text) - (2 if runner.captured else 1))))
        feed = self._clamp(text[runner.length :])
        if len(feed) > LONGEST_CATCH_UP:
            runner.prefill(feed[:-2])
            feed = feed[-2:]
        ids = self.buffer("ids", feed, torch.long)
        base = runner.length
        draft = self.run_loop(ids, u, policy)
        runner.rollback(min(runner.length, base + len(feed) + draft.passes - 1))
        return draft

    def _clamp(self, ids: Sequence[int]) -> list[int]:
        """Clamps ids that the draft has no row for (a padded target may emit one); a wrong id only costs acceptance."""
        last = self.runner.vocab_size - 1
        return [min(i, last) for i in ids]

    def commit(self, accepted: int) -> None:
        self.runner.rollback(min(self.runner.length, self._read + accepted))
