"""Reads the config.json of an EAGLE head in the layouts that are published for it.

SGLang and SpecForge write the fields flat. The speculators library (vLLM) nests those of the layer in
``transformer_layer_config``. EAGLE-1 heads have the config of a Llama model with one layer.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)
from transformers import PreTrainedConfig

from engine.errors import Unavailable, explain

_MASKS = ("ptd_token_id", "pard_token", "mask_token_id")


class EagleLayers(BaseModel, strict=True):
    eagle_aux_hidden_state_layer_ids: tuple[NonNegativeInt, ...] | None = None

    @field_validator("eagle_aux_hidden_state_layer_ids")
    @classmethod
    def _is_ascending(cls, layers: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if layers is not None and list(layers) != sorted({*layers}):
            raise ValueError("layers must be named once each, from low to high")
        return layers


class EagleConfig(BaseModel):
    """The fields that decoding needs. What this engine would compute differently is refused."""

    model_config = ConfigDict(strict=True)

    hidden_size: PositiveInt
    vocab_size: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    intermediate_size: PositiveInt
    rms_norm_eps: float
    head_dim: PositiveInt | None = None
    draft_vocab_size: PositiveInt | None = None  # None: all words of the target
    max_position_embeddings: PositiveInt | None = None
    rope_theta: PositiveFloat | None = None
    rope_scaling: dict | None = None
    rope_parameters: dict | None = None
    norm_before_residual: bool = False
    eagle_config: EagleLayers = Field(default_factory=EagleLayers)
    num_hidden_layers: Literal[1] = 1
    hidden_act: Literal["silu"] = "silu"
    fc_norm: bool = False  # EAGLE-3.1: each of the target's states is normed before `fc`
    norm_before_fc: bool = False  # all of them are normed as one
    norm_output: bool = False  # EAGLE-3.1: the next step reads the state after the last norm
    target_hidden_size: PositiveInt | None = None

    @model_validator(mode="after")
    def _fits_its_target(self):
        if self.target_hidden_size not in (None, self.hidden_size):
            raise ValueError("a head of another width than its target is not supported")
        if self.fc_norm and self.norm_before_fc:
            raise ValueError("fc_norm and norm_before_fc are two ways to norm the same states; a head has one")
        return self

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    def reads(self, layers: int) -> tuple[int, ...]:
        """The layers of a target with ``layers`` of them whose incoming states are read; without any named, those that
        EAGLE-3 was published with."""
        return self.eagle_config.eagle_aux_hidden_state_layer_ids or (2, layers // 2, layers - 3)

    def rotary(self, target: PreTrainedConfig) -> PreTrainedConfig:
        """What rotary frequencies are computed from: the head's own settings, or where it has none its target's."""
        own = self.rope_parameters or ({"rope_theta": self.rope_theta} if self.rope_theta else None)
        if own is None:
            return target
        scaling = {
            ("rope_type" if name == "type" else name): value for name, value in (self.rope_scaling or {}).items()
        }
        return PreTrainedConfig(
            rope_parameters=own | scaling,
            hidden_size=self.hidden_size,
            num_attention_heads=self.num_attention_heads,
            head_dim=self.head_size,
            max_position_embeddings=self.max_position_embeddings or target.max_position_embeddings,
        )


class BlockConfig(EagleConfig):
    """Of a head that guesses a block in one pass (P-EAGLE). ``mask_token``: the id whose embedding masked slots
    have; ``num_depths``: the guesses of a block."""

    num_hidden_layers: PositiveInt = 1
    num_depths: PositiveInt = 8
    mask_token: NonNegativeInt


def read_config(folder: Path, kind: type[EagleConfig] = EagleConfig, noun: str = "EAGLE head"):
    """Returns a config of this ``kind``. Raises Unavailable that names the wrong field."""
    path = Path(folder) / "config.json"
    try:
        fields = json.loads(path.read_bytes())
        return kind.model_validate_json(json.dumps(_flat(fields)))
    except (OSError, AttributeError, TypeError) as error:
        raise Unavailable(f"There is no {noun} in {folder}: config.json cannot be read.") from error
    except ValidationError as error:
        raise Unavailable(f"{path} describes no {noun} that can run here: {explain(error)}.") from error
    except ValueError as error:
        raise Unavailable(f"{path} is damaged; delete that folder and fetch the pair again.") from error


def _flat(fields: dict) -> dict:
    """The layer's fields beside the head's own, which win; the layers it reads where SGLang has them, and the token of
    its mask, for which vLLM and the speculators library have names of their own."""
    flat = {**fields.get("transformer_layer_config", {}), **{k: v for k, v in fields.items() if v is not None}}
    named: Sequence[int] | None = flat.get("eagle_aux_hidden_state_layer_ids")
    flat["mask_token"] = next((flat[name] for name in _MASKS if flat.get(name) is not None), None)
    return flat | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": named}} if named else flat
