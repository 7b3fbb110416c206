"""Target checkpoints as people store them, on both runtimes: transformers' own numbers, or a sentence that names what
does not fit."""

import json
from pathlib import Path

import pytest
import torch
from closeness import assert_close
from safetensors.torch import load_file, save_file
from tiny_models import LINEAR, LLAMA3, RUNTIMES, THETA, YARN, logits_of, write
from transformers import AutoModelForCausalLM

from engine.errors import Unavailable
from engine.models.decoder.config import NO_EFFECT, USED, check_fields, context_length, unsupported_reason
from engine.models.decoder.transformers_config import load_config
from engine.weights.own_models import FAMILIES

IDS = [(37 * i * i + 11 * i + 5) % 96 for i in range(30)]
INDEX = "model.safetensors.index.json"


def settings(**fields):
    """Changes config.json; None takes a field out."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text()) | fields
        path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))

    return change


def tensors(edit):
    """Changes the dictionary of tensors of a folder with one file; ``edit`` may return another one."""

    def change(folder: Path) -> None:
        stored = load_file(folder / "model.safetensors")
        save_file(edit(stored) or stored, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def also(name: str, *shape: int, value: float = 0.3):
    return tensors(lambda stored: stored | {name: torch.full(shape, value)})


def without(name: str):
    return tensors(lambda stored: {key: t for key, t in stored.items() if name not in key})


def renamed(old: str, new: str):
    return tensors(lambda stored: {key.replace(old, new): t for key, t in stored.items()})


def with_equal_head(stored: dict) -> dict:
    return stored | {"lm_head.weight": stored["model.embed_tokens.weight"].clone()}


def both(*changes):
    return lambda folder: [change(folder) for change in changes]


def in_shards(
    folder: Path, *, index: bool = True, listed=lambda name: True, twice: str = "", other: float = 0.0
) -> None:
    """Splits the one file in two, and writes an index of the tensors that are ``listed``. ``twice``: a tensor that both
    hold, with ``other`` added in the second."""
    stored = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, where = sorted(stored), {}
    for i, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{i}-of-00002.safetensors"
        where |= dict.fromkeys(part, file)
        extra = {twice: stored[twice] + (other if twice not in part else 0.0)} if twice else {}
        save_file({name: stored[name] for name in part} | extra, folder / file, metadata={"format": "pt"})
    if index:
        weight_map = {name: file for name, file in where.items() if listed(name)}
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def stale_index(folder: Path) -> None:
    weight_map = dict.fromkeys(load_file(folder / "model.safetensors"), "model-00001-of-00007.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def marked(folder: Path) -> None:
    """A byte order mark before each JSON file, as editors on Windows write one."""
    for file in folder.glob("*.json"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())


OLD = settings(rope_parameters=None, rope_theta=5e4, rope_scaling={"type": "linear", "factor": 2.0})
# name: the checkpoint that transformers writes, and how it is then changed. Transformers reads it, too.
LAYOUTS = {
    "own head beside tie": ("llama", settings(tie_word_embeddings=True)),
    "equal head beside tie": ("llama-tied", tensors(with_equal_head)),
    "only the head of a tied pair": ("llama-tied", renamed("model.embed_tokens", "lm_head")),
    "tied without model.": ("llama-tied", renamed("model.", "")),
    "own head without model.": ("qwen3", renamed("model.", "")),
    "biases declared": ("llama-biased", settings()),
    "biases of zeros": ("llama", also("model.layers.1.self_attn.o_proj.bias", 64, value=0.0)),
    "rotary buffers": ("llama", also("model.layers.0.self_attn.rotary_emb.inv_freq", 8)),
    "qwen3 with biases": ("qwen3-biased", settings()),
    "old rope base": ("llama", settings(rope_parameters=None, rope_theta=5e5)),
    "old rope scaling": ("llama", OLD),
    "old rope beside null": ("qwen2", settings(rope_parameters=None, rope_theta=5e5, rope_scaling=None)),
    "rope_type of old": ("llama", settings(rope_parameters=None, rope_theta=1e4, rope_scaling=LLAMA3)),
    "yarn in old words": ("qwen2", settings(
        rope_parameters=None, rope_theta=1e4, rope_scaling={"type": "yarn", "factor": 4.0})),
    "yarn with mscale": ("llama", settings(rope_parameters=YARN | {"mscale": 0.7, "mscale_all_dim": 1.2})),
    "linear over old": ("llama", settings(rope_parameters=LINEAR, rope_theta=3e5)),
    "both spellings": ("llama", settings(rope_parameters={"rope_type": "default", **THETA}, rope_scaling=LINEAR)),
    "no rope at all": ("qwen3", settings(rope_parameters=None)),
    "no head_dim in qwen3": ("qwen3-wide", settings(head_dim=None)),
    "no kv heads in mistral": ("mistral-8", settings(num_key_value_heads=None)),
    "no eps": ("llama", settings(rms_norm_eps=None)),
    "neutral multipliers": ("llama", settings(embedding_multiplier=1.0, logits_scaling=1)),
    "bookkeeping": ("llama", settings(_name_or_path="x", model_max_length=7, torch_dtype="float16")),
    "qwen windows that are off": ("qwen2", settings(use_sliding_window=False, sliding_window=8, layer_types=None)),
    "qwen windows beyond the last layer": ("qwen2", settings(
        use_sliding_window=True, sliding_window=8, max_window_layers=2, layer_types=None)),
    "shards with an index": ("llama", in_shards),
    "shards without an index": ("llama", lambda f: in_shards(f, index=False)),
    "an index that misses tensors": ("llama", lambda f: in_shards(f, listed=lambda name: "norm" not in name)),
    "a tensor in both shards": ("llama", lambda f: in_shards(f, twice="model.norm.weight")),
    "a stale index": ("llama", stale_index),
    "byte order marks": ("llama", both(in_shards, marked)),
}  # fmt: skip
FRESH = {"shards without an index", "byte order marks"}  # transformers refuses these; the same model as before is right
MADE = {
    "qwen3-biased": ("qwen3", {"attention_bias": True}),
    "qwen3-wide": ("qwen3", {"head_dim": 128}),
    "mistral-8": ("mistral", {"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 16}),
}


def written(folder: Path, name: str, change):
    made, fields = MADE.get(name, (name, {}))
    model = write(folder, made, **fields)
    change(folder)
    return model


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_reads_as_transformers_reads_it(tmp_path, layout, runtime):
    model = written(tmp_path, *LAYOUTS[layout])
    theirs = model if layout in FRESH else AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    config = load_config(tmp_path)
    check_fields(config, "it")
    assert unsupported_reason(config) is None
    theirs.config = config
    runner = RUNTIMES[runtime](tmp_path, theirs)
    runner.reset(len(IDS))
    assert_close(runner.forward(torch.tensor(IDS)), logits_of(theirs, IDS))


# name: as above, and the words of the sentence that name the trouble.
REFUSED = {
    "undeclared bias": ("llama", also("model.layers.1.self_attn.o_proj.bias", 64), "layers.1.self_attn.o_proj.bias"),
    "undeclared mlp bias": ("qwen2", also("model.layers.0.mlp.up_proj.bias", 48), "mlp.up_proj.bias"),
    "declared bias that is missing": ("llama-biased", without("1.self_attn.k_proj.bias"), "1.self_attn.k_proj.bias"),
    "bias that qwen2 always has": ("qwen2", without("0.self_attn.v_proj.bias"), "0.self_attn.v_proj.bias"),
    "q norm in a llama": ("llama", also("model.layers.0.self_attn.q_norm.weight", 16), "layers.0.self_attn.q_norm"),
    "k norm of ones": ("qwen2", also("model.layers.0.self_attn.k_norm.weight", 16, value=1.0), "self_attn.k_norm"),
    "no q norm in a qwen3": ("qwen3", without("q_norm"), "self_attn.q_norm.weight"),
    "only k norm in a qwen3": ("qwen3", without("1.self_attn.q_norm"), "layers.1.self_attn.q_norm.weight"),
    "a norm that llama lacks": ("llama", also("model.layers.0.post_feedforward_layernorm.weight", 64), "post_feed"),
    "a layer too many": ("llama", settings(num_hidden_layers=1), "model.layers.1."),
    "a bias of the head": ("llama", also("lm_head.bias", 96), "lm_head.bias"),
    "no head": ("llama", without("lm_head"), "lm_head.weight"),
    "neither embedding nor head": ("llama-tied", without("embed_tokens"), "embed_tokens"),
    "two spellings of one tensor": ("llama", also("norm.weight", 64), "'norm.weight'"),
    "two unlike tensors": ("llama", lambda f: in_shards(f, twice="model.norm.weight", other=0.5), "two tensors"),
}  # fmt: skip


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("layout", REFUSED)
def test_a_layout_that_does_not_fit_is_refused_by_name(tmp_path, layout, runtime):
    name, change, named = REFUSED[layout]
    model = written(tmp_path, name, change)
    model.config = load_config(tmp_path)
    with pytest.raises(Unavailable) as refusal:
        RUNTIMES[runtime](tmp_path, model)
    message = str(refusal.value)
    assert named in message and tmp_path.name in message and message.endswith(".") and "\n" not in message


@pytest.mark.parametrize(
    "field", [{"embedding_multiplier": 12.0}, {"logits_scaling": 8}, {"final_logit_softcapping": 30.0},
              {"attention_multiplier": 0.01}, {"num_local_experts": 8}],
    ids=lambda field: next(iter(field)),
)  # fmt: skip
def test_a_field_of_another_family_is_refused_by_name(tmp_path, field):
    written(tmp_path, "llama", settings(**field))
    with pytest.raises(Unavailable, match=next(iter(field))):
        check_fields(load_config(tmp_path), "it")


def test_layers_that_slide_without_a_window_are_refused(tmp_path):
    """Transformers (5.23) fails at the first pass of such a file."""
    written(tmp_path, "qwen2", settings(use_sliding_window=False, layer_types=["full_attention", "sliding_attention"]))
    with pytest.raises(Unavailable, match="lists layers of sliding_attention, but no window"):
        check_fields(load_config(tmp_path), "it")


@pytest.mark.parametrize("name, change, reason", [
    ("gpt2", settings(), "not gpt2"),
    ("llama", settings(hidden_act="gelu"), "gelu"),
    ("llama", settings(quantization_config={"quant_method": "awq"}), "quantised"),
    ("llama", settings(partial_rotary_factor=0.5), "partial_rotary_factor 0.5"),
    ("llama", settings(rope_parameters={"rope_type": "dynamic", **THETA, "factor": 2.0}), "dynamic"),
    ("qwen2", settings(layer_types=["full_attention", "chunked_attention"]), "chunked_attention"),
])  # fmt: skip
def test_what_the_decoder_cannot_honour_has_a_reason(tmp_path, name, change, reason):
    written(tmp_path, name, change)
    assert reason in unsupported_reason(load_config(tmp_path))


@pytest.mark.parametrize("name, fields, length", [
    ("mistral", {"sliding_window": 40}, 40),
    ("mistral", {"sliding_window": None}, 256),
    ("mistral", {"sliding_window": 40, "use_sliding_window": False}, 40),  # Mistral's class reads no such field
    ("qwen2", {"use_sliding_window": True, "sliding_window": 40, "max_window_layers": 1, "layer_types": None}, 40),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 40, "max_window_layers": 2, "layer_types": None}, 256),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 40, "layer_types": ["full_attention"] * 2}, 256),
    ("qwen3", {"use_sliding_window": False, "sliding_window": 40}, 256),
    ("llama", {"sliding_window": 40}, 40),
    ("llama", {"sliding_window": 40, "use_sliding_window": False}, 256),
])  # fmt: skip
def test_a_window_limits_the_text_where_a_layer_slides(tmp_path, name, fields, length):
    written(tmp_path, name, settings(**fields))
    assert context_length(load_config(tmp_path)) == length


def test_every_field_of_the_families_is_accounted_for():
    """A field that a later transformers adds has to be looked at."""
    from dataclasses import fields

    from transformers import CONFIG_MAPPING, PretrainedConfig

    common = {field.name for field in fields(PretrainedConfig)}
    for family in FAMILIES:
        declared = {field.name for field in fields(CONFIG_MAPPING[family])} - common
        assert declared <= USED | NO_EFFECT, family
