"""Runs `BlockDrafter` on a block head whose logits are known: slot 0 knows the last token, later slots only the guess
before them, by the bias."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

from engine.drafters.base import Draft
from engine.drafters.block import BlockDrafter
from engine.models.heads.block import BlockModel
from engine.sampling.warping import warp
from engine.tools.exactness.toy_models import ToyLM


class ToyBlock(BlockModel):
    """A head over a ToyLM, whose rows it averages over the token before the last one."""

    slots, reads = 4, (0,)

    def __init__(self, draft: ToyLM):
        V = draft.vocab_size
        self.rows, self.target_ids = draft.table.mean(0), torch.arange(V)
        self.unknown = self.rows.mean(0)
        self._bias = torch.eye(V), (self.rows - self.unknown).T, self.target_ids

    def block(self, ids: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        read = len(features)
        return torch.cat([self.rows[ids[read - 1]][None], self.unknown.expand(len(ids) - read, -1)])


class ToyBlockRunner:
    """Runs a `ToyBlock` under the protocol that drafters know; its cache is a number of tokens."""

    captured, max_length, length = False, 1 << 20, 0

    def __init__(self, model: ToyBlock):
        self.model = model

    def reset(self, capacity: int) -> None:
        self.length = 0

    def prefill(self, ids, features) -> None:
        self.length += len(ids)

    def rollback(self, length: int) -> None:
        self.length = length

    def loop(self, key, total: int, body):
        self.length += total
        return body(lambda ids, offset, features: (self.model.block(ids, features), None))

    def release(self) -> None:
        self.reset(0)


def toy_block(draft: ToyLM, kind: type[BlockDrafter] = BlockDrafter) -> BlockDrafter:
    """Returns a drafter whose q has a share of the draft's own law, and depends on the guess before."""
    target: Any = SimpleNamespace(features=lambda reads, start, end: torch.zeros(end - start, 1))
    runner: Any = ToyBlockRunner(ToyBlock(draft))
    return kind(runner, target)


class ForgetfulBlock(BlockDrafter):
    """Draws each place after the guess before it, and reports the q that the place had before: a mistake."""

    def propose(self, text, gamma: int, policy=None) -> Draft:
        draft = super().propose(text, gamma, policy)
        forgotten = warp(self.runner.model.unknown.expand(len(draft) - 1, -1), self.setup.sampling)
        return replace(draft, q=torch.cat([draft.q[:1], forgotten]))
