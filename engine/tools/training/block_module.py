"""Defines a parallel drafter as a module to train: an EAGLE-3 head whose further slots read a mask in place of tokens
and features that are not known yet (P-EAGLE, arXiv 2602.01469). A bias (DSpark, arXiv 2607.05147) may tell a slot the
guess before it.

Slot 0 of a block is the EAGLE-3 head's own position: the target's features of token t and the embedding of token t + 1.
Slots 1 … K − 1 have the embedding of a mask token and one learnable ``mask_hidden`` in place of the features. Each sees
slot 0 of all earlier positions and the slots before it in its block, and slot d guesses token t + d + 2.

Dimension key: B rows, L positions, E hidden size, K slots, S masked slots of a row, N = L + S, H query heads, D head
size, Vd draft words, R the rank of the bias.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from engine.tools.training.eagle3_module import EagleHead


class PlainLayer(nn.Module):
    """A further layer, as Llama's; it has the parts of the first one."""

    def __init__(self, first: EagleHead, E: int):
        super().__init__()
        self.norm_in, self.norm_mid = (nn.Parameter(torch.ones(E)) for _ in range(2))
        for name in ("q", "k", "v", "o", "gate", "up", "down"):
            rows, width = getattr(first, name).weight.shape
            setattr(self, name, nn.Linear(E if name in "qkv" else width, rows, bias=False))


class PlaceBias(nn.Module):
    """Adds w2 · w1[guess before] to a slot's logits, and nothing at first. w1 [Vd, R] begins as the principal
    directions of ``head`` [Vd, E], so that words of one kind begin alike; w2 is [Vd, R]."""

    def __init__(self, head: torch.Tensor, rank: int):
        super().__init__()
        rows = head.float() - head.float().mean(0)
        rows = rows @ torch.linalg.svd(rows, full_matrices=False).Vh[:rank].T
        rows = F.pad(rows / rows.std(), (0, rank - rows.shape[1]))
        self.w1, self.w2 = nn.Parameter(rows), nn.Parameter(torch.zeros_like(rows))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Returns what to add […, Vd] after each of words […], numbers of the head's own; −1 for a word that it cannot
        guess, after which nothing is added."""
        return F.linear(F.embedding(words.clamp_min(0), self.w1) * (words >= 0)[..., None], self.w2)


class BlockHead(EagleHead):
    """``embed`` and ``head`` as in an EAGLE head; ``mask_token``: the target's id whose embedding masked slots have;
    ``rank``: the rank of the bias, 0 for none."""

    def __init__(
        self, config, embed: torch.Tensor, head: torch.Tensor, taps: int, mask_token: int, layers: int = 1,
        rank: int = 0,
    ):  # fmt: skip
        super().__init__(config, embed, head, taps)
        self.mask_token = mask_token
        self.mask_hidden = nn.Parameter(torch.zeros(taps * config.hidden_size))
        self.further: Any = nn.ModuleList(PlainLayer(self, config.hidden_size) for _ in range(layers - 1))
        self.bias: Any = PlaceBias(head, rank) if rank else None

    def blocks(self, ids: torch.Tensor, features: torch.Tensor, anchors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Runs blocks over ids [B, L], features [B, L, taps·E]; anchors, of slots 1 … K − 1, [B, A]: the positions
        whose blocks have that slot, each a start of the list before it. Returns the states of slot 0, [B, L, E], then
        [B, A, E] of each."""
        B, L = ids.shape
        S = sum(one.shape[1] for one in anchors)
        slots, starts, order = _numbers(anchors, ids)
        positions = torch.cat([torch.arange(L, device=ids.device).expand(B, L), starts + slots], 1)
        shifted = F.pad(ids[:, 1:], (0, 1))  # token t + 1 at position t
        ids = torch.cat([shifted, shifted.new_full((B, S), self.mask_token)], 1)
        hidden = torch.cat([self.fuse(features), self.fuse(self.mask_hidden).expand(B, S, -1)], 1)
        rotary, mask = self.rotary(positions, hidden.dtype), _visible(L, slots, starts, order)
        hidden = self.run_first(ids, hidden, rotary, mask)
        for layer in self.further:
            hidden = self.run_layer(layer, self.rms_norm(hidden, layer.norm_in), hidden, rotary, mask)
        return list(hidden.split([L, *(one.shape[1] for one in anchors)], 1))


def _numbers(anchors: list[torch.Tensor], ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns for each masked slot: its number in its block [S], slot 0's position [B, S], its block's number [S]."""
    sizes = [one.shape[1] for one in anchors]
    slots = torch.tensor([d for d, size in enumerate(sizes, start=1) for _ in range(size)], dtype=torch.long)
    order = torch.tensor([i for size in sizes for i in range(size)], dtype=torch.long)
    starts = torch.cat([ids[:, :0], *anchors], 1)
    return slots.to(ids.device), starts, order.to(ids.device)


def _visible(L: int, slots: torch.Tensor, starts: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Returns [B, 1, N, N] bool: which elements each one sees; see `_numbers`."""
    (B, S), places = starts.shape, torch.arange(L, device=starts.device)
    causal = (places[None] <= places[:, None]).expand(B, L, L)
    context = places <= starts[..., None]  # [B, S, L]
    same = (order[None] == order[:, None]) & (slots[None] <= slots[:, None])
    upper = torch.cat([causal, causal.new_zeros(B, L, S)], 2)
    return torch.cat([upper, torch.cat([context, same.expand(B, S, S)], 2)], 1)[:, None]
