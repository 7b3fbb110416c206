"""Masks as bits: the same words on a CPU, where tables spread them, and as a device unpacks them."""

import numpy as np
import pytest
import torch
from closeness import assert_close

from engine.sampling.constraint import factors, is_set, mask_guesses, mask_logits, mask_rows, set_bit, unpack
from engine.sampling.constraint import unpack_on_device as on_device


@pytest.mark.parametrize("V", [1, 7, 8, 9, 100, 4_099])
def test_a_device_and_a_cpu_unpack_the_same_words(V):
    bits = np.random.default_rng(V).integers(0, 256, (3, (V + 7) // 8), dtype=np.uint8)
    allowed, logits = unpack(bits, V, "cpu"), torch.randn(3, V)
    assert allowed.tolist() == [[is_set(row, word) for word in range(V)] for row in bits]
    assert torch.equal(on_device(torch.from_numpy(bits), V), allowed)
    assert torch.equal(factors(bits, V, "cpu"), allowed.float())
    assert torch.equal(mask_logits(logits, bits), logits.masked_fill(~allowed, -torch.inf))


def test_a_bit_is_set_and_cleared_alone():
    bits = np.array([0b1010_0101, 0], np.uint8)
    set_bit(bits, 1, True)
    set_bit(bits, 7, False)
    set_bit(bits, 9, True)
    assert bits.tolist() == [0b0010_0111, 0b10]


def test_a_masked_q_is_scaled_and_a_row_without_words_stays():
    q = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
    masked = mask_rows(q, torch.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    assert_close(masked, torch.tensor([[5 / 7, 0.0, 2 / 7], [1.0, 0.0, 0.0]]))
    guesses = mask_guesses(q, torch.tensor([[True, False, False], [False, False, False]]))
    assert guesses[0].isneginf().tolist() == [False, True, True] and torch.equal(guesses[1], q[1])
