"""Decides how far two computations of the same numbers may be apart: as far as rounding takes them, and no further.

No tolerance is a bare number. It follows from the number format and from the size of the numbers, so a test passes with
every kernel of the numeric libraries, although each adds up in its own order. test_closeness.py shows that faults are
far outside.
"""

import math

import pytest
import torch

# How many roundings of the largest number a tiny model's pass may differ by. With the kernels of today it is up to 62.
ROUNDINGS = 256


def tolerance(*sizes, roundings: float = ROUNDINGS, dtype: torch.dtype = torch.float32) -> float:
    """Returns the largest difference that rounding explains.

    ``sizes``: numbers or tensors, of which the largest absolute value counts; ``dtype``: the coarsest number format
    that the compared numbers went through.
    """
    size = max(float(torch.as_tensor(each).abs().max()) for each in sizes)
    assert math.isfinite(size), "numbers of no finite size are close to everything"
    return roundings * torch.finfo(dtype).eps * size


def assert_close(found: torch.Tensor, expected: torch.Tensor, *sources: torch.Tensor, **limits) -> None:
    """Asserts that both are the same up to rounding. ``sources``: larger numbers that these were computed from, such as
    the logits of probabilities; ``limits``: as `tolerance` has them."""
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance(expected, *sources, **limits))


def is_close(found: torch.Tensor, expected: torch.Tensor, *sources: torch.Tensor, **limits) -> bool:
    """Returns whether both are the same up to rounding."""
    return torch.allclose(found, expected, rtol=0, atol=tolerance(expected, *sources, **limits))


def assert_each_close(found: torch.Tensor, expected: torch.Tensor, **limits) -> None:
    """Asserts that each number is the same up to its own rounding, however small it is next to the others."""
    torch.testing.assert_close(found, expected, rtol=tolerance(1.0, **limits), atol=0)


def approx(expected, size: float = 1.0, **limits):
    """Returns pytest's approx of numbers that were computed from numbers of this size: 1 for probabilities."""
    return pytest.approx(expected, rel=0, abs=tolerance(size, **limits))
