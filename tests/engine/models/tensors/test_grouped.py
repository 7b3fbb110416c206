"""Weights in groups of 32: rounding, readers of rounded weights, and refusals."""

import pytest
import torch
from tiny_models import onnx_runner_of, write

from engine.errors import Unavailable
from engine.models.tensors.grouped import GROUP, GroupedWeight, RoundedReader, read_grouped
from engine.models.tensors.safetensors_reader import TensorReader

SIZES = {"hidden_size": 64, "intermediate_size": 96}
ROUNDED = [(4, "int4"), (8, "int8")]


def weights(K=96):
    return torch.randn(64, K, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bits, steps", [(4, 15), (8, 254)])
def test_rounding_is_off_by_half_a_step_at_most(bits, steps):
    w = weights()
    groups = w.view(64, -1, GROUP)
    span = groups.amax(-1) - groups.amin(-1) if bits == 4 else 2 * groups.abs().amax(-1)
    rounded = GroupedWeight.round(w, bits)
    error = (rounded.dense() - w).view(64, -1, GROUP).abs().amax(-1)
    assert (error <= span / steps / 2 * 1.001).all() and error.max() > 0 and rounded.bits == bits
    assert torch.equal(GroupedWeight.round(torch.zeros(2, 64), bits).dense(), torch.zeros(2, 64))


@pytest.mark.parametrize("bits", [4, 8])
def test_rows_and_stacks_are_those_of_the_whole(bits):
    whole, ids = GroupedWeight.round(weights(), bits), torch.tensor([3, 0, 61])
    assert torch.equal(whole.rows(ids).dense(), whole.dense()[ids])
    parts = [GroupedWeight.round(some, bits) for some in weights().split([8, 56])]
    assert torch.equal(GroupedWeight.cat(parts).dense(), whole.dense())


@pytest.mark.parametrize("bits, name", ROUNDED)
def test_reader_rounds_only_matrices_and_the_vocabulary_to_eight_bits(tmp_path, bits, name):
    model = write(tmp_path, **SIZES)
    inner = TensorReader(tmp_path, torch.float32, "cpu")
    reader = RoundedReader(inner, bits)
    for key, weight in model.state_dict().items():
        shape = tuple(weight.shape)
        if weight.ndim < 2:
            assert torch.equal(reader(key, shape), weight)
            continue
        stored = 8 if key in ("model.embed_tokens.weight", "lm_head.weight") else bits
        assert torch.equal(reader(key, shape), GroupedWeight.round(weight, stored).dense())
        assert read_grouped(inner, {key: shape}, bits).bits == bits, "not in groups, so rounded to what is asked for"
    assert "lm_head.weight" in reader and "lm_head.bias" not in reader


@pytest.mark.parametrize("bits, name", ROUNDED)
def test_what_no_group_divides_is_refused_in_a_sentence(tmp_path, bits, name):
    words = f"{name} rounds groups of 32 weights, but a layer here has 48 inputs; choose fp32"
    with pytest.raises(Unavailable, match=words):
        GroupedWeight.round(weights(K=48), bits)
    model = write(tmp_path)
    with pytest.raises(Unavailable, match=words):
        onnx_runner_of(tmp_path, model, name)
