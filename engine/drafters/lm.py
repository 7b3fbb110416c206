"""An independent draft model: a small LM with the target's tokenizer, sampled with the target's own settings.

Dimension key: N drafts, V target vocabulary, Vd the draft's (padding may differ; q is 0 where the draft has no word).
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F

from engine.device import to_device
from engine.drafters.base import Draft, Setup
from engine.runner import Runner
from engine.sampling import DRAFTING, draw, penalise, warp

_LONGEST_CATCH_UP = 8  # committed tokens fed together with the first step; more than that are prefilled


class LmDrafter:
    name = "lm"
    priors: ClassVar = {0: 0.6}

    def __init__(self, runner: Runner):
        self.runner = runner
        self._buffers: dict[tuple, torch.Tensor] = {}

    def start(self, prompt: Sequence[int], setup: Setup) -> None:
        self.setup = setup
        self.runner.reset(min(setup.capacity, self.runner.max_length))
        self.runner.prefill(self._known(prompt[:-1]))
        self._committed = len(prompt)

    def situation(self, committed: Sequence[int]):
        return 0

    def deeper(self, situation):
        return situation

    def propose(self, committed: Sequence[int], gamma: int, position: int) -> Draft:
        """Feeds what was committed since the last proposal, then drafts one token a pass."""
        runner, self._committed = self.runner, len(committed)
        # A captured loop wants one width: two tokens cover both a refused and a fully accepted round, the first of
        # them rewriting the keys it already has.
        runner.rollback(max(0, min(runner.length, len(committed) - (2 if runner.captured else 1))))
        feed = self._known(committed[runner.length :])
        if len(feed) > _LONGEST_CATCH_UP:
            runner.prefill(feed[:-2])
            feed = feed[-2:]
        table = self.setup.uniforms.table(DRAFTING)[position : position + gamma]
        ids = self._buffer("ids", feed, torch.long)
        u = self._buffer("u", table, torch.float32)
        key = (len(feed), gamma, self.setup.sampling)
        tokens, q = runner.loop(key, len(feed) + gamma - 1, lambda step: self._draft(step, ids, u))
        return Draft(tokens, q, steps=gamma)

    def _draft(self, step, ids: torch.Tensor, u: torch.Tensor):
        """ids [catch-up], u [N] → tokens [N], q [N, V]; no host decisions, so that it can be captured."""
        setup, tokens, rows = self.setup, [], []
        seen = None if setup.history is None else setup.history.seen[None].clone()
        fed, offset = ids, 0
        for i in range(len(u)):
            logits = step(fed, offset)[:, : setup.vocab_size].float()
            if seen is not None:
                logits = penalise(logits, seen[:, : logits.shape[1]], setup.sampling.repetition_penalty)
            q = F.pad(warp(logits, setup.sampling), (0, setup.vocab_size - logits.shape[1]))
            token = draw(q, u[i : i + 1])
            if seen is not None:
                seen.scatter_(1, token[None], True)
            tokens.append(token)
            rows.append(q)
            offset += len(fed)
            fed = token
        return torch.cat(tokens), torch.cat(rows)

    def _known(self, ids: Sequence[int]) -> list[int]:
        """A padded target may emit an id that the draft has no row for; any id will do, it only costs acceptance."""
        last = self.runner.vocab_size - 1
        return [min(i, last) for i in ids]

    def _buffer(self, name: str, values, dtype: torch.dtype) -> torch.Tensor:
        """``values`` in a buffer that keeps its address, as a captured graph needs."""
        key, fresh = (name, len(values)), to_device(values, self.setup.device, dtype)
        return self._buffers.setdefault(key, torch.empty_like(fresh)).copy_(fresh)

    def commit(self, accepted: int) -> None:
        self.runner.rollback(min(self.runner.length, self._committed + accepted))

    def release(self) -> None:
        self.runner.release()
