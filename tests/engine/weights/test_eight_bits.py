"""Weights that a folder stores in 8 bits: every runtime reads them as they are meant; what does not fit is refused."""

import json

import pytest
import torch
from closeness import assert_close, assert_each_close
from safetensors.torch import load_file, save_file
from tiny_models import RUNTIMES, logits_of, onnx_runner_of
from tiny_pairs import model_folder

from engine.errors import Unavailable
from engine.models.decoder.transformers_runner import TransformersRunner
from engine.models.loader import load_model
from engine.models.onnx.llama import OnnxLlama
from engine.models.tensors.grouped import GroupedWeight
from engine.models.tensors.safetensors_reader import TensorReader
from engine.tools.training.stored_bits import convert, quantization_config
from engine.weights.checkpoint_dir import figures
from engine.weights.eight_bits import is_read_here

IDS = [3, 14, 15, 9, 2, 6]


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def stored(request, tmp_path_factory):
    """A folder in fp32, the same in 8 bits, and the model that the second one describes, dequantised by hand."""
    root = tmp_path_factory.mktemp("stored")
    model = model_folder(root / "plain", intermediate_size=96, tie_word_embeddings=request.param)
    convert(root / "plain", root / "small", 8)
    tensors = load_file(root / "small" / "model.safetensors")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if f"{name}_scale" in tensors:
                scale = tensors[f"{name}_scale"]
                weight.copy_(tensors[name].float() * scale.repeat_interleave(weight.shape[1] // scale.shape[1], 1))
            else:
                weight.copy_(tensors[name])
    return root / "plain", root / "small", model


@pytest.mark.parametrize("runtime", [*RUNTIMES, "transformers"])
def test_every_runtime_computes_with_the_stored_weights(stored, runtime):
    _, small, model = stored
    if runtime == "transformers":
        runner = TransformersRunner(small, torch.float32, "cpu")
    else:
        runner = RUNTIMES[runtime](small, model)
    runner.reset(len(IDS))
    assert_close(runner.forward(torch.tensor(IDS)), logits_of(model, IDS))
    assert type(load_model(small, "cpu", "fp32").runner.model) is OnnxLlama, "our own decoder reads it"


def test_in_eight_bits_nothing_changes_at_all(stored):
    """ONNX Runtime runs drafts in 8 bits, also those whose folder stores more."""
    plain, small, model = stored
    logits = []
    for folder in (plain, small):
        runner = onnx_runner_of(folder, model, "int8")
        runner.reset(len(IDS))
        logits.append(runner.forward(torch.tensor(IDS)).clone())
    assert torch.equal(*logits)
    read = TensorReader(plain, torch.float32, "cpu")
    name = "model.layers.0.mlp.up_proj.weight"
    rounded, kept = GroupedWeight.round(read(name), 8), TensorReader(small, torch.float32, "cpu").blocks(name)
    assert torch.equal(rounded.n, kept.n) and torch.equal(rounded.scale, kept.scale) and read.blocks(name) is None


def test_scales_are_no_parameters(stored):
    plain, small, _ = stored
    assert figures(small) == figures(plain)


def folder_of(folder, **tensors):
    save_file({name.replace("_scale", ".weight_scale"): t.contiguous() for name, t in tensors.items()}, folder / "f")
    return TensorReader(folder, torch.float32, "cpu", "f")


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_scale_serves_32_weights_of_a_row_or_a_multiple(tmp_path, groups):
    n = torch.randint(-128, 128, (3, 128), dtype=torch.int8)
    scale = torch.rand(3, groups)
    read = folder_of(tmp_path, **{"a.weight": n, "a_scale": scale})
    by_hand = [[float(n[i, j]) * float(scale[i, j * groups // 128]) for j in range(128)] for i in range(3)]
    assert_each_close(read("a.weight", (3, 128)), torch.tensor(by_hand), roundings=8)
    assert torch.equal(read.blocks("a.weight").dense(), read("a.weight"))
    assert read.blocks("a.weight_scale") is None


def test_scales_that_do_not_fit_are_refused_in_a_sentence(tmp_path):
    whole = {"a.weight": torch.ones(3, 64, dtype=torch.int8), "a_scale": torch.ones(3, 2)}
    for change, words in (
        ({"a_scale": None}, r"8 bits without a\.weight_scale"),
        ({"a_scale": torch.ones(3)}, r"\(3, 64\), with scales \(3,\): each row needs one"),
        ({"a_scale": torch.ones(2, 2)}, r"with scales \(2, 2\)"),
        ({"a_scale": torch.ones(3, 4)}, "a group of 32 weights, or of a multiple"),
        ({"a_scale": torch.ones(3, 2, dtype=torch.int32)}, "each row needs one"),
        ({"a_scale": torch.tensor([[1.0, 1.0], [1.0, float("inf")], [1.0, 1.0]])}, "scales are not all finite"),
        ({"a.weight": torch.ones(64, dtype=torch.int8)}, r"\(64,\), with scales"),
        ({"a.weight": torch.ones(3, 64)}, "has scales, but is not stored as whole numbers of 8 bits"),
        ({"a.weight_zero_point": torch.ones(3, 2, dtype=torch.int8)}, "zero points"),
    ):
        tensors = {name: t for name, t in (whole | change).items() if t is not None}
        with pytest.raises(Unavailable, match=words):
            folder_of(tmp_path, **tensors)("a.weight")


def test_only_symmetric_integers_without_rounded_activations_are_read():
    ours = quantization_config(["Linear"])
    assert is_read_here(ours) and is_read_here(json.loads(json.dumps(ours)))

    def changed(**weights):
        group = ours["config_groups"]["group_0"]
        return ours | {"config_groups": {"group_0": group | {"weights": group["weights"] | weights}}}

    assert is_read_here(changed(strategy="channel", group_size=None))
    assert is_read_here(
        ours | {"version": "0.12", "sparsity_config": {}, "transform_config": {}, "kv_cache_scheme": None}
    )
    rounds_activations = ours["config_groups"]["group_0"] | {"input_activations": {"num_bits": 8}}
    for other in (
        changed(num_bits=4), changed(type="float"), changed(symmetric=False), changed(dynamic=True), {}, None, "int8",
        ours | {"format": "pack-quantized"}, ours | {"quant_method": "gptq"}, ours | {"kv_cache_scheme": {"a": 1}},
        ours | {"config_groups": {"a": rounds_activations}}, ours | {"config_groups": [1]},
        ours | {"transform_config": {"config_groups": {"R4": {"type": "hadamard"}}}},
        ours | {"sparsity_config": {"format": "sparse-24-bitmask"}},
    ):  # fmt: skip
        assert not is_read_here(other), other
