"""Finds the few words of a row that a round needs, without sorting or copying all V of them.

Dimension key: N drafts, R rows, V vocabulary, C words that matter, k candidates.
"""

import numpy as np
import torch

_BLOCKS = (256, 128, 64)  # sizes to cut a row into; the largest that divides V


def greedy_words(logits: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the words [C], ascending, that are likeliest in a row or drafted; p [N+1, C], one-hot at the likeliest;
    and the place [N] of each of ``tokens`` among the words. For greedy rows on a CPU: the mass of all others is 0, so
    a rule decides about these C as it would about all V.

    >>> greedy_words(torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), torch.tensor([2]))[1].tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    best = likeliest(logits)
    words, places = np.unique(np.concatenate([best, tokens.numpy()]), return_inverse=True)
    p = torch.from_numpy((words == best[:, None]).astype(np.float32))
    return torch.from_numpy(words), p, torch.from_numpy(places[len(best) :])


def likeliest(logits: torch.Tensor) -> np.ndarray:
    """Returns the likeliest word of each row on a CPU, by numpy: only its argmax is vectorised. numpy has no bf16."""
    return logits.float().numpy().argmax(-1)


def gap(logits: torch.Tensor) -> torch.Tensor:
    """Returns how far the largest logit of each row [R] is above the second."""
    if logits.device.type != "cpu":
        two = logits.topk(2).values
        return two[:, 0] - two[:, 1]
    best = torch.from_numpy(likeliest(logits))[:, None]
    first = logits.gather(1, best)
    logits.scatter_(1, best, -torch.inf)
    second = logits.amax(-1)
    logits.scatter_(1, best, first)
    return first[:, 0] - second


def top(rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the k largest values of each row and where they are, both [R, k], the largest first. On a CPU by blocks:
    the k largest lie in the k blocks with the largest maxima."""
    R, V = rows.shape
    k = min(k, V)
    block = next((size for size in _BLOCKS if V % size == 0 and 2 * k * size <= V), None)
    if rows.is_cuda or block is None:
        return tuple(rows.topk(k))
    cut = rows.view(R, -1, block)
    blocks = cut.amax(-1).topk(k).indices  # [R, k]
    values, places = cut.gather(1, blocks[..., None].expand(-1, -1, block)).flatten(1).topk(k)
    return values, blocks.gather(1, places // block) * block + places % block
