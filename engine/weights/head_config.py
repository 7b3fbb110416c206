"""Reads the fields of a head's config.json in the layouts that are published for it.

SafeAILab, SpecForge and SGLang write the fields flat, and `eagle_config` inside them. The speculators library (vLLM)
nests the layer's fields in ``transformer_layer_config`` and leaves out what equals the defaults of its class. A missing
field has the default of the class that trained the head, never the target's value.
"""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.errors import Unavailable, explain

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T", bound="BaseModel")

LAYER_IDS = "eagle_aux_hidden_state_layer_ids"

_LLAMA = {  # the defaults of LlamaConfig, and of SafeAILab's EConfig
    "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "vocab_size": 32000,
    "rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "hidden_act": "silu", "rope_theta": 10000.0,
}  # fmt: skip
DEFAULTS = {  # by model_type; all others are written by Llama's classes. The size of a head is shown by the tensors
    "llama": _LLAMA,
    "qwen3": _LLAMA | {
        "intermediate_size": 22016, "vocab_size": 151936, "max_position_embeddings": 32768, "num_key_value_heads": 32,
    },
}  # fmt: skip

# Fields that change no number of a head's pass: of the file and what wrote it, of training, of tokens, lengths and
# caches, and those that every configuration in transformers had once, settings of its generate among them. Whether a
# projection has a bias is shown by its tensors.
_WORDS = """
architectures model_type auto_map dtype torch_dtype transformers_version speculators_version producer version base_model
speculators_model_type speculators_config has_no_defaults_at_init base_model_name_or_path target_model_type library_name
target_model_name_or_path
initializer_range initializer_factor attention_dropout hidden_dropout resid_pdrop embd_pdrop embed_requires_grad
pretraining_tp gradient_checkpointing ttt_length
bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id use_cache max_window_layers
max_sequence_length max_seq_len max_model_len
attention_bias mlp_bias bias qkv_bias medusa_fc_bias
id2label label2id problem_type return_dict output_attentions output_hidden_states is_encoder_decoder is_decoder
chunk_size_feed_forward tie_encoder_decoder add_cross_attention cross_attention_hidden_size finetuning_task num_labels
prefix pruned_heads task_specific_params tokenizer_class tf_legacy_loss torchscript use_bfloat16
max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p
typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
num_return_sequences output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id
remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
"""
NO_EFFECT = frozenset(_WORDS.split())
_NEUTRAL = {"partial_rotary_factor": 1, "logit_scale": 1, "rope_interleaved": False, "hidden_dropout_prob": 0}
# Inside `eagle_config`: the values with which a head is the usual one.
_USUAL = {
    "use_aux_hidden_state": True, "use_input_layernorm_in_first_layer": True, "use_last_layernorm": True,
    "use_mtp_layernorm": False, "next_layer_regular": True, "parallel_draft_step": 1, "has_lm_head": True,
}  # fmt: skip
_OF_THE_HEAD = ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")
_SECTIONS = ("transformer_layer_config", "eagle_config", "quantization_config")


def read_config(
    folder: Path, kind: type[T], noun: str, known: Collection[str], settings: Callable[[dict], dict] = dict
) -> T:
    """Returns the pydantic model of this ``kind`` that a head's config.json describes. ``settings``: its values, from
    fields that are ``known``. Raises Unavailable, which names the wrong field and the ``noun`` of the head."""
    from pydantic import ValidationError

    path = Path(folder) / "config.json"
    try:
        fields = json.loads(path.read_bytes())
        check_fields(fields, known, path)
        return kind.model_validate_json(json.dumps(settings(fields)))
    except (OSError, AttributeError, TypeError) as error:
        raise Unavailable(f"{folder} holds no {noun}: config.json cannot be read.") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"{path} is damaged; fetch the pair or export the head again.") from error
    except ValueError as error:
        reason = explain(error) if isinstance(error, ValidationError) else error
        raise Unavailable(f"{path} describes no {noun} that can run here: {reason}.") from error


def flat(fields: Mapping) -> dict:
    """Returns the layer's fields beside the head's own, which win, and the fields of `eagle_config` that say how the
    head computes, which win over both. Fields that are null are left out."""
    layer, eagle = (_section(fields, name) for name in ("transformer_layer_config", "eagle_config"))
    of_eagle = {name: value for name, value in eagle.items() if name in _OF_THE_HEAD}
    merged = {}
    for part in (layer, fields, of_eagle):
        merged |= {name: value for name, value in part.items() if value is not None}
    if layer.get("model_type"):  # the head's own only names the speculators library
        merged["model_type"] = layer["model_type"]
    return merged


def with_defaults(fields: Mapping) -> dict:
    """Returns flat fields, with the defaults of its format in place of missing ones."""
    defaults = DEFAULTS.get(fields.get("model_type"), _LLAMA)
    complete = defaults | {name: value for name, value in fields.items() if value is not None}
    complete.setdefault("num_key_value_heads", complete["num_attention_heads"])
    return complete


def layers_read(fields: Mapping, counts_inputs: bool) -> list | None:
    """Returns the layers of the target whose incoming states the head reads; None if config.json names none.

    The flat list, which vLLM and the speculators library read first, names states that enter a layer. The one in
    `eagle_config` counts layers whose outputs are read (SpecForge, SGLang), so the state enters the next layer;
    ``counts_inputs``: unless it is of an older version of ours. Raises ValueError if both are there and differ.
    """
    entering, leaving = fields.get(LAYER_IDS), _section(fields, "eagle_config").get(LAYER_IDS)
    if not leaving:
        return entering or None
    if counts_inputs and not entering:
        return leaving
    following = [i + 1 if type(i) is int else i for i in leaving]
    if entering and list(entering) != following:
        raise ValueError(
            f"{LAYER_IDS} names the states entering layers {entering}, but that in eagle_config the outputs of layers "
            f"{leaving}, which are other states"
        )
    return following


def window(fields: Mapping, layers: int) -> int | None:
    """Returns how many tokens each of the head's ``layers`` attends to; None for all. Raises ValueError for a window
    that only some layers have."""
    size, types = fields.get("sliding_window"), fields.get("layer_types")
    if fields.get("model_type") in ("qwen2", "qwen3"):
        size = size if fields.get("use_sliding_window") else None
        first = fields.get("max_window_layers", 28)
        types = types or ["sliding_attention" if i >= first else "full_attention" for i in range(layers)]
    kinds = {*(types or ["full_attention"])[:layers]}
    if strange := kinds - {"sliding_attention", "full_attention"}:
        raise ValueError(f"layer_types names {min(map(str, strange))!r}, which a head cannot have here")
    if "sliding_attention" not in kinds or (size is None and fields.get("model_type") in ("qwen2", "qwen3")):
        return None
    if len(kinds) > 1:
        raise ValueError("layer_types gives a window to some of its layers only")
    if type(size) is not int or size < 1:
        raise ValueError("layer_types says sliding_attention, but sliding_window is no number of tokens")
    return size


def check_fields(fields: Mapping, known: Collection[str], where: object) -> None:
    """Raises Unavailable, which names ``where``, if a field that is not ``known`` may change a head's numbers. A field
    that is off, null or empty changes nothing."""
    known = {*known, *_SECTIONS}
    parts = (fields, _section(fields, "transformer_layer_config"))
    strange = [name for part in parts for name, value in part.items() if not _is_harmless(name, value, known)]
    for name, value in _section(fields, "eagle_config").items():
        is_usual = value == _USUAL[name] if name in _USUAL else _is_harmless(name, value, (LAYER_IDS, *_OF_THE_HEAD))
        if not is_usual:
            strange.append(f"eagle_config.{name}")
    if strange:
        raise Unavailable(
            f"{where} has the field {strange[0]!r}, whose value is not known here, so the head might draft otherwise "
            "than it was trained to; take the field out if it changes nothing."
        )


def _is_harmless(name: str, value: object, known: Collection[str]) -> bool:
    is_off = value is None or value is False or value in ("", [], {})
    return is_off or name in known or name in NO_EFFECT or name.startswith("_") or value == _NEUTRAL.get(name, ...)


def _section(fields: Mapping, name: str) -> Mapping:
    section = fields.get(name)
    return section if isinstance(section, Mapping) else {}
