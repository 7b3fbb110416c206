"""Reads the config.json of a model that our own decoder may run: which fields it uses, which have no effect, and which
it cannot honour.

The reference is transformers' own class of each family. A field that this class declares is used here, or listed as one
without effect, or sends the model to `TransformersRunner`. A field that it doesn't declare has no effect there; those
that would change the numbers elsewhere are refused by name, because the file then belongs to another family.
"""

from dataclasses import fields
from types import MappingProxyType

from transformers import PretrainedConfig

from engine.errors import Unavailable
from engine.models.decoder.attention import rope
from engine.weights.eight_bits import is_read_here
from engine.weights.own_models import FAMILIES, ROPE_KINDS

USED = frozenset({
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "head_dim", "hidden_act", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "rope_parameters",
    "attention_bias", "mlp_bias", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
    "eos_token_id",
})  # fmt: skip
NO_EFFECT = frozenset({  # on a forward pass
    "initializer_range", "use_cache", "pretraining_tp", "attention_dropout", "bos_token_id", "pad_token_id",
})  # fmt: skip
# Fields of other families that change the numbers, with the values at which they don't.
FOREIGN = MappingProxyType({
    "embedding_multiplier": (1,), "residual_multiplier": (1,), "attention_multiplier": (), "logits_scaling": (1,),
    "logit_scale": (1,), "attention_scale": (1,), "scale_emb": (1,), "scale_depth": (), "dim_model_base": (),
    "mup_multiplier": (1,), "query_pre_attn_scalar": (), "final_logit_softcapping": (0,), "logits_soft_cap": (0,),
    "attn_logit_softcapping": (0,), "attention_logit_cap": (0,), "clip_qkv": (0,), "use_qk_norm": (False,),
    "qk_norm": (False,), "qk_layernorm": (False,), "no_rope_layers": ([],), "attention_chunk_size": (0,),
    "kv_lora_rank": (0,), "num_experts": (0, 1), "num_local_experts": (0, 1), "n_routed_experts": (0, 1),
    "alibi": (False,), "parallel_residual": (False,), "use_parallel_residual": (False,), "layernorm_1p": (False,),
})  # fmt: skip
PROJECTIONS = (*(f"self_attn.{name}_proj" for name in "qkvo"), *(f"mlp.{name}_proj" for name in ("gate", "up", "down")))
_LAYER_TYPES = ("full_attention", "sliding_attention")


def unsupported_reason(config: PretrainedConfig) -> str | None:
    """Says why our decoder cannot run the model; None where it can. `TransformersRunner` may still run it."""
    if config.model_type not in FAMILIES:
        return f"the decoder knows {', '.join(FAMILIES)}, not {config.model_type}"
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act}, not silu"
    if reason := _rope_problem(config):
        return reason
    if (rounded := getattr(config, "quantization_config", None)) and not is_read_here(rounded):
        return "its weights are quantised"
    if unknown := set(_layer_types(config)) - set(_LAYER_TYPES):
        return f"it has layers of the type {min(map(str, unknown))!r}"
    if field := _unread_field(config):
        return f"config.json sets {field}, which the decoder does not read"
    return None


def _rope_problem(config: PretrainedConfig) -> str | None:
    parameters = rope(config)
    if parameters["rope_type"] not in ROPE_KINDS:
        return f"its rope scaling {parameters['rope_type']!r} changes with the length"
    if any(isinstance(value, dict) for value in parameters.values()):
        return "its layers have rotary embeddings of several kinds"
    if (share := parameters.get("partial_rotary_factor")) not in (None, 1):
        return f"it turns a part of each head only (partial_rotary_factor {share})"
    return None


def _unread_field(config: PretrainedConfig) -> str | None:
    """Finds a field that transformers' class declares and that is neither used here nor known to have no effect. At its
    default it describes the family as we know it."""
    common = {field.name for field in fields(PretrainedConfig)}
    own = (field for field in fields(config) if field.name not in common | USED | NO_EFFECT)
    return next((field.name for field in own if getattr(config, field.name) != field.default), None)


def check_fields(config: PretrainedConfig, where: str) -> None:
    """Raises Unavailable, naming the field and ``where`` it is, for one that would change the numbers and that the
    model's family does not have, and for windows that have no size. Other families are transformers' own, with the
    fields that it declares."""
    if config.model_type not in FAMILIES:
        return
    if "sliding_attention" in _layer_types(config) and not getattr(config, "sliding_window", None):
        raise Unavailable(
            f"{where} lists layers of sliding_attention, but no window: set use_sliding_window and sliding_window, or "
            "list full_attention."
        )
    declared = {field.name for field in fields(config)}
    for name, neutral in FOREIGN.items():
        value = getattr(config, name, None)
        if name not in declared and value is not None and value not in neutral:
            raise Unavailable(
                f"{where} sets {name} to {str(value)[:60]}, which {config.model_type} models do not have, so the "
                "numbers would be wrong; correct its model_type, or delete the field if it has no meaning."
            )


def head_size(config) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def context_length(config) -> int:
    """Returns the longest sequence. Because older keys are not dropped here, a sliding window limits it too."""
    window = getattr(config, "sliding_window", None)
    if not window or not _slides(config):
        return config.max_position_embeddings
    return min(config.max_position_embeddings, window)


def _slides(config) -> bool:
    """Returns whether a layer attends to its window alone: in Mistral all do, in Qwen those that layer_types lists.
    Llama's class has no window; one in the file still limits the text, unless the file says that it is off."""
    types = _layer_types(config)
    if config.model_type == "llama":
        return getattr(config, "use_sliding_window", True)
    return "sliding_attention" in types if types else True


def _layer_types(config) -> list[str]:
    """Returns Qwen's list, which its class makes from max_window_layers if there is none. Mistral reads none."""
    return (getattr(config, "layer_types", None) or []) if config.model_type.startswith("qwen") else []


def bias_parts(config) -> tuple[str, ...]:
    """Returns the projections of a layer that have a bias."""
    if config.model_type == "qwen2":
        return PROJECTIONS[:3]
    declared = {"llama": (("attention_bias", PROJECTIONS[:4]), ("mlp_bias", PROJECTIONS[4:])),
                "qwen3": (("attention_bias", PROJECTIONS[:4]),)}  # fmt: skip
    fields = declared.get(config.model_type, ())
    return tuple(part for field, parts in fields if getattr(config, field, False) for part in parts)


def norms_heads(config) -> bool:
    """Returns whether queries and keys are normed."""
    return config.model_type == "qwen3"
