"""What a folder of a head is: in which files and names its tensors may lie, and what another program's drafter is."""

import json

import pytest
import torch
from head_table import MIDLAYER, PREFIX, E, Shape, says, write
from safetensors.torch import load_file, save_file
from tiny_pairs import VOCABULARY, engine_in, model_folder

from engine.errors import BadInput
from engine.weights.catalogue import get_pair
from engine.weights.checkpoint_dir import eagle_version, figures, head_method


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folders") / "target"
    model_folder(folder, num_hidden_layers=7)
    return folder


def matrices(*names: str) -> dict[str, torch.Tensor]:
    return {name: torch.ones(E, E) for name in names}


OTHERS = {  # config.json, tensors, what the folder is called
    "DFlash": (
        {"architectures": ["DFlashDraftModel"], "dflash_config": {}}, matrices("fc.weight", "hidden_norm.weight"),
        "a DFlash draft",
    ),
    "DSpark": ({"speculators_model_type": "dspark"}, matrices("fc.weight"), "a DSpark draft"),
    "Hydra": ({"hydra_num_heads": 3}, matrices("hydra_head.0.0.linear.weight"), "Hydra heads"),
    "Hydra, by its tensors": ({}, matrices("hydra_head.0.0.linear.weight"), "Hydra heads"),
    "MLP speculator": ({"model_type": "mlp_speculator"}, matrices("speculator.emb.0.weight"), "an MLP speculator"),
    "MTP": ({"architectures": ["Qwen3NextMTP"]}, matrices("fc.weight"), "a layer for multi-token prediction"),
    "Medusa 1.0": (
        {"medusa_num_heads": 3, "model_type": "llama"},
        matrices("medusa_head.0.0.linear.weight", "model.layers.0.self_attn.q_proj.weight"),
        "a whole model with Medusa heads inside it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_drafter_of_another_program_is_called_what_it_is(target, tmp_path, name):
    config, tensors, noun = OTHERS[name]
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert head_method(tmp_path) == ""
    with pytest.raises(
        BadInput, match=f"holds {noun}.*(no method here drafts with; name|in a folder of their own)"
    ) as refused:
        get_pair(f"{target}+{tmp_path}")
    assert str(refused.value).count(". ") == 0


MEDUSA = {f"{k}.0.linear.{part}": (E, E)[:n] for k in range(2) for n, part in ((2, "weight"), (1, "bias"))}
KINDS = {  # config.json, shapes of tensors, method
    "EAGLE-3": ({}, {"midlayer.hidden_norm.weight": (E,), "fc.weight": (E, 3 * E)}, "eagle"),
    "EAGLE-3, model. before its names": ({}, {"model.fc.weight": (E, 3 * E)}, "eagle"),
    "P-EAGLE, model. before its names": ({}, {"model.fc.weight": (E, 3 * E), "model.mask_hidden": (1, E)}, "block"),
    "Medusa heads without their number": ({"base_model_name_or_path": "x/y"}, MEDUSA, "medusa"),
    "Medusa heads as vLLM stores them": ({"num_heads": 1}, {"blocks.0.layers.0.weight": (E, E)}, "medusa"),
    "Medusa heads below their list": ({}, {f"medusa_heads.{name}": shape for name, shape in MEDUSA.items()}, "medusa"),
    "a model": ({"num_nextn_predict_layers": 1}, {"model.layers.0.mlp.gate_proj.weight": (E, E)}, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_head_is_known_by_its_fields_and_tensors(tmp_path, name):
    config, shapes, method = KINDS[name]
    save_file({tensor: torch.ones(shape) for tensor, shape in shapes.items()}, tmp_path / "heads.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert head_method(tmp_path) == method


@pytest.mark.parametrize("layouts", [(), (MIDLAYER,), (PREFIX,)])
@pytest.mark.parametrize("version", [1, 3])
def test_an_eagle_heads_version_shows_in_its_attention(tmp_path, version, layouts):
    write(tmp_path / "head", Shape(version=version), *layouts)
    assert eagle_version(tmp_path / "head") == version


def in_two_files(folder) -> None:
    whole = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for i, names in enumerate((sorted(whole)[::2], sorted(whole)[1::2]), 1):
        save_file({name: whole[name] for name in names}, folder / f"model-{i:05}-of-00002.safetensors")


def in_a_file_of_another_name(folder) -> None:
    (folder / "model.safetensors").rename(folder / "eagle3.safetensors")


def beside_an_index_of_few_tensors(folder) -> None:
    in_two_files(folder)
    where = {"fc.weight": "model-00001-of-00002.safetensors", "norm.weight": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


@pytest.mark.parametrize("files", [in_two_files, in_a_file_of_another_name, beside_an_index_of_few_tensors])
def test_a_heads_tensors_are_found_without_a_right_index(target, tmp_path, files):
    write(tmp_path / "head", Shape())
    files(tmp_path / "head")
    engine = engine_in("torch", f"{target}+{tmp_path / 'head'}", "eagle-chain")
    assert engine.drafts.loaded["eagle"].runner.model.vocab_size == VOCABULARY // 2


def test_a_head_whose_config_is_short_has_the_sizes_of_its_class(tmp_path):
    short = dict.fromkeys(("num_hidden_layers", "hidden_act", "num_key_value_heads"))
    write(tmp_path / "head", Shape(), says(**short))
    found = figures(tmp_path / "head")
    assert (found["layers"], found["kv_heads"], found["context"], found["hidden_size"]) == (1, 4, 2048, E)
