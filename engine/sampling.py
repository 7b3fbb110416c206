"""Logits → warped probabilities → a token. Knows no model; randomness comes in as an argument.

Dimension key: R rows (positions scored at once), V vocabulary.

The warping equals transformers' processors in transformers' order (repetition penalty, temperature, top-k, top-p,
min-p), because p is only "the target's distribution" if it is the one people get elsewhere. Greedy is a one-hot row.
"""

import numpy as np
import torch

from engine.config import SamplingParams
from engine.device import to_device

_TOP_P_GUESS = 128  # candidates looked at before sorting a whole row
DRAFTING, ACCEPTING, CLOSING = 0, 1, 2  # the three streams of uniforms; CLOSING draws residual, bonus and plain


def penalise(logits: torch.Tensor, seen: torch.Tensor, penalty: float) -> torch.Tensor:
    """Repetition penalty (Keskar et al. 2019, as in transformers): seen tokens' logits shrink by ``penalty``.

    logits [R, V]; seen [R, V] bool, one row a position because a drafted token counts as seen by its successors.
    """
    if penalty == 1.0:
        return logits
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def warp(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Penalised logits [R, V] → probabilities [R, V] in fp32, each row summing to 1."""
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
        probs = _renormalise(probs.masked_fill(probs < _top_p_floor(probs, params.top_p), 0.0))
    if params.min_p > 0.0:
        floor = probs.amax(-1, keepdim=True) * params.min_p
        probs = _renormalise(probs.masked_fill(probs < floor, 0.0))
    return probs


def one_hot(ids: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """ids [R] → [R, V] with all mass on the id."""
    return torch.zeros(len(ids), vocabulary, device=ids.device).scatter_(1, ids[:, None], 1.0)


def _renormalise(probs: torch.Tensor) -> torch.Tensor:
    return probs / probs.sum(-1, keepdim=True)


def _top_p_floor(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """The smallest probability that top-p keeps, [R, 1]: a token stays while the mass above it is below ``top_p``.

    A partial top-k finds it on nearly every row; only rows flatter than that are worth a full sort. On a CUDA device
    the answer to "was it enough?" would cost a sync, so there the whole row is sorted.
    """
    count = probs.shape[-1]
    guess = count if probs.is_cuda else min(_TOP_P_GUESS, count)
    while True:
        ranked = probs.topk(guess).values  # descending
        kept = ranked.cumsum(-1) - ranked < top_p
        if guess == count or not bool(kept[:, -1].any()):
            last = kept.sum(-1, keepdim=True) - 1
            return ranked.gather(-1, last)
        guess = min(guess * 16, count)


def draw(probs: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Inverse-CDF lookup: probs [R, V] (any positive total), u [R] in [0, 1) → ids [R].

    The draw is scaled by the row's real total, because fp32 CDFs end at 1 ± 6e-7, and only tokens of positive mass
    can come out: a token owns the half-open interval between its neighbours' cumulative sums.
    """
    # Two rows at least: over a single row CUDA scans in an order that changes from run to run.
    rows = probs if len(probs) > 1 or not probs.is_cuda else probs.expand(2, -1)
    cdf = rows.cumsum(-1)[: len(probs)]
    total = cdf[:, -1:]
    # u·total may round up to total: the largest float below it still belongs to the last token of positive mass.
    point = torch.minimum(u[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cdf, point, right=True).squeeze(1)


class Uniforms:
    """Every random draw of a run, a pure function of (seed, stream, position, sibling): seekable and replayable.

    Values are multiples of 2⁻²⁴ in [0, 1), exact in fp32 and in JSON. Philox is counter-based, so the first draws do
    not depend on how many are asked for.
    """

    def __init__(self, seed: int, positions: int):
        self.seed, self.positions = seed, positions
        self._tables: dict[tuple[int, int], np.ndarray] = {}

    def table(self, stream: int, sibling: int = 0) -> np.ndarray:
        """[positions] float32 of one stream; ``sibling`` numbers the children of one tree node."""
        key = (stream, sibling)
        if key not in self._tables:
            bits = np.random.Philox(key=[self.seed, stream + 4 * sibling]).random_raw(self.positions)
            self._tables[key] = ((bits >> np.uint64(40)).astype(np.float32) / np.float32(2**24)).astype(np.float32)
        return self._tables[key]


class History:
    """Which tokens count as repeated, on the device: what is committed, plus the drafts before each position."""

    def __init__(self, ids, vocabulary: int, device: str):
        self.seen = torch.zeros(vocabulary, dtype=torch.bool, device=device)  # [V]
        self.add(ids)

    def add(self, ids) -> None:
        self.seen[to_device(list(ids), self.seen.device)] = True

    def rows(self, tokens: torch.Tensor, parents=None) -> torch.Tensor:
        """tokens [N] → [N+1, V]: what has been seen when each node's successor is chosen."""
        rows = self.seen.expand(len(tokens) + 1, -1).clone()
        for node in range(1, len(rows)):
            parent = node - 1 if parents is None else parents[node - 1]
            rows[node] = rows[parent]
            rows[node].index_fill_(0, tokens[node - 1 : node], True)
        return rows
