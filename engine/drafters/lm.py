"""An independent draft model: a small LM with the target's tokenizer, sampled with the target's own settings.

Its vocabulary may be padded otherwise than the target's; q is 0 where the draft has no word.
"""

from collections.abc import Sequence

import torch

from engine.drafters.base import Draft, Setup
from engine.drafters.chain import LONGEST_CATCH_UP, ChainDrafter


class LmDrafter(ChainDrafter):
    name = "lm"

    def start(self, prompt: Sequence[int], setup: Setup) -> None:
        super().start(prompt, setup)
        self.runner.prefill(self._known(prompt[:-1]))
        self._committed = len(prompt)

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        """Feeds what was committed since the last proposal, then drafts one token a pass."""
        runner, self._committed = self.runner, len(committed)
        # A captured loop wants one width: two tokens cover both a refused and a fully accepted round, the first of
        # them rewriting the keys it already has.
        runner.rollback(max(0, min(runner.length, len(committed) - (2 if runner.captured else 1))))
        feed = self._known(committed[runner.length :])
        if len(feed) > LONGEST_CATCH_UP:
            runner.prefill(feed[:-2])
            feed = feed[-2:]
        ids = self._buffer("ids", feed, torch.long)
        u = self._uniforms(position, gamma)
        judge = None if runner.captured else self.setup.judge
        base = runner.length

        def body(step) -> Draft:
            offset = 0

            def advance(token):
                nonlocal offset
                fed = ids if token is None else token
                logits, _ = step(fed, offset)
                offset += len(fed)
                return logits

            return self._draft(advance, u, gamma, judge)

        key = (len(feed), gamma, self.setup.sampling)
        draft = runner.loop(key, len(feed) + gamma - 1, body)
        runner.rollback(min(runner.length, base + len(feed) + draft.steps - 1))
        return draft

    def _known(self, ids: Sequence[int]) -> list[int]:
        """A padded target may emit an id that the draft has no row for; any id will do, it only costs acceptance."""
        last = self.runner.vocab_size - 1
        return [min(i, last) for i in ids]

    def commit(self, accepted: int) -> None:
        self.runner.rollback(min(self.runner.length, self._committed + accepted))
