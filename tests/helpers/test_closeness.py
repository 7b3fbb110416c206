"""Rounding stays inside the tolerance of the numeric tests, and a fault is far outside."""

from copy import deepcopy

import pytest
import torch
from closeness import approx, assert_close, assert_each_close, is_close, tolerance
from tiny_models import logits_of, write
from torch import nn

IDS = [(37 * i * i + 11 * i + 5) % 96 for i in range(40)]


def swap_the_layers(decoder):
    decoder.layers = nn.ModuleList(reversed(decoder.layers))


def transpose_a_weight(decoder):
    weight = decoder.layers[1].mlp.gate_proj.weight
    weight.copy_(weight.T.reshape(weight.shape))


def leave_out_a_norm(decoder):
    decoder.layers[1].post_attention_layernorm = nn.Identity()


def change_the_rotary_base(decoder):
    frequencies = decoder.rotary_emb.inv_freq
    frequencies *= (10_000 / 10_500) ** (torch.arange(len(frequencies)) / len(frequencies))


@pytest.mark.parametrize("name", ["llama", "qwen3"])
@pytest.mark.parametrize("fault", [swap_the_layers, transpose_a_weight, leave_out_a_norm, change_the_rotary_base])
@torch.no_grad()
def test_a_fault_is_hundreds_of_tolerances_off(tmp_path, name, fault):
    model = write(tmp_path, name)
    right, exact = logits_of(model, IDS), logits_of(deepcopy(model).double(), IDS).float()
    assert_close(right, exact)
    fault(model.model)
    wrong = logits_of(model, IDS)
    assert not is_close(wrong, right, roundings=100_000)
    assert not is_close(wrong.softmax(-1), right.softmax(-1), right, roundings=10_000)
    with pytest.raises(AssertionError, match="not close"):
        assert_close(wrong, right)


def test_a_tolerance_follows_the_size_and_the_format_of_the_numbers():
    numbers, change = torch.tensor([1000.0, 0.001]), torch.tensor([0.0, 0.01])
    assert tolerance(numbers) == 1000 * tolerance(1.0) == 1000 * tolerance(0.5, -1.0)
    assert tolerance(1.0, dtype=torch.bfloat16) == 2**16 * tolerance(1.0)
    assert_close(numbers + change, numbers)
    with pytest.raises(AssertionError, match="not close"):
        assert_close(numbers + change, numbers, roundings=8)
    with pytest.raises(AssertionError, match="not close"):
        assert_each_close(numbers + change, numbers)
    assert approx(0.5) == 0.5 + 0.9 * tolerance(1.0) and approx(0.5) != 0.5 + 1.1 * tolerance(1.0)


@pytest.mark.parametrize("endless", [torch.inf, torch.nan])
def test_a_number_that_is_not_finite_makes_nothing_close(endless):
    with pytest.raises(AssertionError, match="finite size"):
        is_close(torch.ones(2), torch.tensor([1.0, endless]))
