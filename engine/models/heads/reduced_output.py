"""Builds an output layer of some of the target's words, for heads that guess among those that it writes most.

Dimension key: Vd words, E hidden size, V the target's vocabulary.
"""

from pathlib import Path

import torch

from engine.errors import Unavailable
from engine.models.tensors.grouped import GroupedWeight

ROWS = "lm_head.weight"  # the words' rows, where they are stored with the head
MAP, KNOWN = "d2t", "t2d"  # the target's id of each word less its own, and whether the head has each of the target's


def word_ids(d2t: torch.Tensor, vocabulary: int, folder: Path) -> torch.Tensor:
    """Returns target ids [Vd]; the stored map holds target id − draft id of each draft word. Unavailable if wrong.

    >>> word_ids(torch.tensor([0, 0, 5]), 10, Path("."))     # draft word 2 is target word 7
    tensor([0, 1, 7])
    """
    if d2t.dtype not in (torch.int64, torch.int32) or d2t.ndim != 1 or not len(d2t):
        raise Unavailable(f"The vocabulary map (d2t) in {folder} is no list of whole numbers; fetch the head again.")
    words = d2t.long() + torch.arange(len(d2t))
    if int(words.min()) < 0 or int(words.max()) >= vocabulary or len(words.unique()) != len(words):
        raise Unavailable(f"The vocabulary map (d2t) in {folder} names words that the target does not have, or twice.")
    return words


def mapped_words(weights, vocabulary: int) -> torch.Tensor:
    """Returns the target ids [Vd] of the map in ``weights``. Unavailable if it is wrong, or the other map disagrees."""
    words = word_ids(weights.raw(MAP), vocabulary, weights.folder)
    if KNOWN in weights:
        known = weights.raw(KNOWN)
        if len(words) == vocabulary:  # then SafeAILab's heads leave it empty
            return words
        if known.shape != (vocabulary,) or not torch.equal(known.bool().nonzero()[:, 0], words.sort().values):
            raise Unavailable(
                f"The vocabulary maps in {weights.folder} disagree: d2t and t2d name different words; fetch or export "
                "the head again."
            )
    return words


def output_rows(weights, target, words: torch.Tensor) -> torch.Tensor | GroupedWeight:
    """Returns the output layer [Vd, E] of these words: the rows stored in ``weights``, else the target's own."""
    if ROWS in weights:
        return fitting(weights, ROWS, (len(words), target.width))
    if target.is_tied:
        return target.embedding(words).to(target.dtype)
    matrix = target.output_matrix() if target.on_host else target.head.weight
    if len(words) == target.vocab_size and torch.equal(words.cpu(), torch.arange(len(words))):
        return matrix
    return matrix.rows(words) if isinstance(matrix, GroupedWeight) else matrix[words]


def fitting(weights, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Returns the tensor. Unavailable if it has another shape than this target needs."""
    size = tuple(weights.raw(name).shape)
    if size == shape:
        return weights(name, shape)
    if len(size) == 2 and size[1] == shape[1] and MAP not in weights:
        raise Unavailable(
            f"{name} in {weights.folder} has {size[0]} words and the target {shape[0]}, and there is no map of them "
            f"({MAP}); use the target it was made for."
        )
    raise Unavailable(
        f"{name} in {weights.folder} is {size}, where this target needs {shape}; use the target it was made for."
    )
