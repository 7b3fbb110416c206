"""Turns logits into probabilities (penalty, temperature, top-k, top-p, min-p) and draws tokens from them.

Dimension key: R rows (positions scored at once), V vocabulary.

The order and the results are as in transformers' logits processors, because p must be the distribution that users of
the same model get elsewhere. Greedy is a one-hot row. Uniforms are arguments.
"""

import numpy as np
import torch

from engine.config import SamplingParams
from engine.device import to_device

_TOP_P_GUESS = 128  # candidates ranked before a whole row is sorted


def penalise(logits: torch.Tensor, seen: torch.Tensor, penalty: float) -> torch.Tensor:
    """Applies the repetition penalty (Keskar et al. 2019, as in transformers): seen tokens' logits shrink by
    ``penalty``.

    logits [R, V]; seen [R, V] bool: one row per position, because a drafted token counts as seen by its successors.
    """
    if penalty == 1.0:
        return logits
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def warp(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Turns penalised logits [R, V] into probabilities [R, V] in fp32, each row summing to 1."""
    logits = logits.float()
    if params.greedy:
        return one_hot(logits.argmax(-1), logits.shape[-1])
    logits = logits / params.temperature
    vocabulary = logits.shape[-1]
    if 0 < params.top_k < vocabulary:
        kth = logits.topk(params.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    probs = logits.softmax(-1)
    if params.top_p < 1.0:
        probs = _renormalise(torch.where(_nucleus(logits, probs, params.top_p), probs, 0.0))
    if params.min_p > 0.0:
        floor = probs.amax(-1, keepdim=True) * params.min_p
        probs = _renormalise(probs.masked_fill(probs < floor, 0.0))
    return probs


def one_hot(ids: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Returns rows [R, V] with all mass on ids [R]."""
    return torch.zeros(len(ids), vocabulary, device=ids.device).scatter_(1, ids[:, None], 1.0)


def _renormalise(probs: torch.Tensor) -> torch.Tensor:
    return probs / probs.sum(-1, keepdim=True)


def _nucleus(logits: torch.Tensor, probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """Returns [R, V] bool: the tokens that top-p keeps. A token stays while it and all less likely ones together have
    more than 1 - ``top_p`` of the mass. Of equally likely tokens as many stay as with transformers (5.23), the last
    ones; which ones stay there is left to a sort that is not stable.

    A partial top-k finds the end on nearly every row; only flatter rows are sorted in full. On CUDA every row is
    sorted, because checking whether the partial one was enough would cost a sync.
    """
    wide = torch.float32 if probs.device.type == "mps" else torch.float64  # which Apple's GPUs lack
    count, total = probs.shape[-1], probs.sum(-1, keepdim=True, dtype=wide)
    guess = count if probs.is_cuda else min(_TOP_P_GUESS, count)
    while True:
        ranked, ids = logits.topk(guess)  # descending
        mass = probs.gather(-1, ids).to(wide)
        # Rounded where transformers rounds, so that both decide alike where the mass is exactly ``top_p``.
        nucleus = (total - mass.cumsum(-1) + mass).float() > 1 - top_p
        if guess == count or not bool(nucleus[:, -1].any()):
            break
        guess = min(guess * 16, count)
    size = nucleus.sum(-1, keepdim=True).clamp_min(1)  # a row of NaN, noticed later, has no nucleus
    last = ranked.gather(-1, size - 1)
    nucleus = logits >= last
    surplus = nucleus.sum(-1, keepdim=True) - size
    if probs.is_cuda or bool((surplus > 0).any()):
        equal = logits == last
        nucleus &= ~equal | (equal.cumsum(-1) > surplus)
    return nucleus


def draw(probs: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Draws by inverse-CDF lookup: probs [R, V] (any positive total), u [R] in [0, 1) → ids [R].

    u is scaled by the row's actual total, because fp32 CDFs end at 1 ± 6e-7. Only tokens of positive mass can be
    drawn: a token owns the half-open interval from the cumulative sum before it to its own.
    """
    if len(probs) == 1 and probs.device.type == "cpu":  # a single number is much quicker in numpy
        cdf, u_one = probs.cumsum(-1)[0].numpy(), u.numpy()[0]
        point = min(u_one * cdf[-1], np.nextafter(cdf[-1], np.float32(0)))
        return torch.tensor([min(int(cdf.searchsorted(point, "right")), cdf.size - 1)])
    # At least two rows, because CUDA scans a single row in an order that changes from run to run.
    rows = probs if len(probs) > 1 or not probs.is_cuda else probs.expand(2, -1)
    cdf = rows.cumsum(-1)[: len(probs)]
    total = cdf[:, -1:]
    # u·total may round up to total: the largest float below it still belongs to the last token of positive mass.
    point = torch.minimum(u[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    # If a row is not finite, its last token is drawn; the fault is noticed afterwards.
    return torch.searchsorted(cdf, point, right=True).squeeze(1).clamp_max(probs.shape[-1] - 1)


class History:
    """Which tokens the repetition penalty applies to: the committed ones, and the drafts before each position."""

    def __init__(self, ids, vocabulary: int, device: str):
        self.seen = torch.zeros(vocabulary, dtype=torch.bool, device=device)  # [V]
        self.add(ids)

    def add(self, ids) -> None:
        # Not by index assignment: on CUDA that waits for a copy of the scalar (torch 2.13).
        self.seen.index_fill_(0, to_device(list(ids), self.seen.device), True)

    def rows(self, tokens: torch.Tensor, parents=None) -> torch.Tensor:
        """Returns [N+1, V] bool of drafts [N]: the tokens seen before the successor of each node."""
        rows = self.seen.expand(len(tokens) + 1, -1).clone()
        for node in range(1, len(rows)):
            parent = node - 1 if parents is None else parents[node - 1]
            rows[node] = rows[parent]
            rows[node].index_fill_(0, tokens[node - 1 : node], True)
        return rows
