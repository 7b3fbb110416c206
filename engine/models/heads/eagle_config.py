"""Reads the config.json of an EAGLE head as the settings that its pass needs, in every layout of
`engine/weights/head_config.py`. What this engine would compute differently is refused."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, field_validator, model_validator
from transformers import PreTrainedConfig

from engine.weights import head_config
from engine.weights.eight_bits import is_read_here
from engine.weights.own_models import ROPE_KINDS

_MASKS = ("mask_token_id", "pard_token", "ptd_token_id")  # in vLLM's order
_ROPE = ("rope_theta", "rope_scaling", "rope_parameters", "original_max_position_embeddings")
_READ = {  # fields that become others
    *_MASKS, *_ROPE, head_config.LAYER_IDS, "sliding_window", "use_sliding_window", "layer_types", "use_aux_norm",
}  # fmt: skip
_ROPE_KINDS = (*ROPE_KINDS, "dynamic", "longrope")
_ROPE_SETTINGS = {  # beside rope_theta and rope_type; the sections of mrope are alike for text
    "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
    "mscale", "mscale_all_dim", "attention_factor", "truncate", "short_factor", "long_factor", "mrope_section",
    "mrope_interleaved",
}  # fmt: skip
_README = "Reads the states entering"  # in the card of every head that was trained here


class EagleConfig(BaseModel):
    """``layers``: the target's layers whose incoming states the head reads; None: the layers that EAGLE-3 was published
    with. ``rope``: as transformers has it in `rope_parameters`. ``window``: tokens that it attends to."""

    model_config = ConfigDict(strict=True)

    hidden_size: PositiveInt
    vocab_size: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    intermediate_size: PositiveInt
    rms_norm_eps: float
    head_dim: PositiveInt | None = None  # None: as in its query projection
    draft_vocab_size: PositiveInt | None = None  # None: as many as its map has, or all words of the target
    max_position_embeddings: PositiveInt = 2048
    rope: dict = {"rope_type": "default", "rope_theta": 10000.0}
    norm_before_residual: bool = False
    layers: tuple[NonNegativeInt, ...] | None = None
    window: PositiveInt | None = None
    num_hidden_layers: PositiveInt | None = None  # None: as many as its file has
    hidden_act: Literal["silu"] = "silu"
    tie_word_embeddings: bool = False
    fc_norm: bool = False  # EAGLE-3.1: each of the target's states is normed before `fc`
    norm_before_fc: bool = False  # all of them are normed as one
    norm_output: bool = False  # EAGLE-3.1: the next step reads the state after the last norm
    target_hidden_size: PositiveInt | None = None  # None: its own
    num_aux_hidden_states: PositiveInt | None = None
    num_aux_layers: PositiveInt | None = None

    @field_validator("layers")
    @classmethod
    def _is_ascending(cls, layers: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if layers is not None and list(layers) != sorted({*layers}):
            raise ValueError("layers must be named once each, from low to high")
        return layers

    @model_validator(mode="after")
    def _agrees_with_itself(self):
        if self.fc_norm and self.norm_before_fc:
            raise ValueError("fc_norm and norm_before_fc are two ways to norm the same states; a head has one")
        counts = {self.num_aux_hidden_states, self.num_aux_layers} - {None}
        if counts - {len(self.layers or (0, 0, 0))}:
            raise ValueError("it does not read as many states as it names layers")
        return self

    def reads(self, layers: int) -> tuple[int, ...]:
        """Returns the layers of a target with ``layers`` of them whose incoming states are read; without any named,
        those that EAGLE-3 was published with."""
        return self.layers or (2, layers // 2, layers - 3)

    @property
    def longest(self) -> int | None:
        """The most tokens for which its rotary frequencies hold; None where they do not change with the length."""
        if self.rope["rope_type"] == "longrope":
            return self.rope["original_max_position_embeddings"]
        return self.max_position_embeddings if self.rope["rope_type"] == "dynamic" else None

    def rotary(self) -> PreTrainedConfig:
        """Returns the settings that rotary frequencies are computed from."""
        names = ("hidden_size", "num_attention_heads", "head_dim", "max_position_embeddings")
        fields: dict[str, Any] = {name: getattr(self, name) for name in names}
        fields["rope_parameters"] = dict(self.rope)
        return PreTrainedConfig(**fields)


class BlockConfig(EagleConfig):
    """The config of a head that guesses a block in one pass (P-EAGLE). ``mask_token``: the id whose embedding masked
    slots have; ``num_depths``: the guesses of a block. ``markov_rank``: the rank of the bias by the guess before; 0 for
    none."""

    num_depths: PositiveInt = 8
    mask_token: NonNegativeInt
    markov_rank: NonNegativeInt = 0
    markov_head_type: Literal["vanilla"] = "vanilla"
    parallel_drafting: Literal[True] = True


def read_config(folder: Path, kind: type[EagleConfig] = EagleConfig, noun: str = "EAGLE head"):
    """Returns a config of this ``kind``. Raises Unavailable that names the wrong field."""
    known = {*kind.model_fields, *_READ} - {"rope", "layers", "window"}
    return head_config.read_config(folder, kind, noun, known, lambda fields: _settings(fields, folder))


def _settings(fields: dict, folder: Path) -> dict:
    """Returns the values of an `EagleConfig`, before they are checked."""
    flat = head_config.with_defaults(head_config.flat(fields))
    if (stored := flat.get("quantization_config")) and not is_read_here(stored):
        raise ValueError("its weights are rounded in a way that is not read here (quantization_config)")
    if flat.get("use_aux_norm"):  # SGLang's older name
        flat["fc_norm"] = True
    flat["mask_token"] = next((flat[name] for name in _MASKS if flat.get(name) is not None), None)
    flat["layers"] = head_config.layers_read(fields, _counts_inputs(folder))
    flat["window"] = head_config.window(flat, flat.get("num_hidden_layers", 1))
    flat["rope"] = _rope(flat)
    return flat


def _counts_inputs(folder: Path) -> bool:
    """Returns whether our own version before the flat list of layers wrote it; its card says how it counts."""
    try:
        return _README in Path(folder, "README.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _rope(flat: dict) -> dict:
    """Raises ValueError for settings that are not known here."""
    settings = {**(flat.get("rope_parameters") or {}), **(flat.get("rope_scaling") or {})}
    theta, older = settings.pop("rope_theta", None), settings.pop("type", None)
    kind = settings.pop("rope_type", None) or older or "default"
    kind = {"su": "longrope", "mrope": "default"}.get(kind, kind)
    if settings.get("partial_rotary_factor") == 1:
        del settings["partial_rotary_factor"]
    if kind not in _ROPE_KINDS:
        raise ValueError(f"its rotary embedding is of the kind {kind!r}")
    if strange := {name for name, value in settings.items() if value is not None} - _ROPE_SETTINGS:
        raise ValueError(f"its rotary embedding has the setting {min(strange)!r}, which is not known here")
    if kind in ("llama3", "yarn", "longrope"):
        known = flat.get("original_max_position_embeddings", flat["max_position_embeddings"])
        settings.setdefault("original_max_position_embeddings", known)
    return {"rope_type": kind, "rope_theta": theta or flat["rope_theta"]} | settings
