"""Runs an EAGLE-3 head: the layer of `training/eagle3_module.py`, in place on a KV cache, with packed linears.

Loads the layout that vLLM and SGLang use (`midlayer.*`, `fc`, `norm`, `lm_head`, `d2t`); the embedding is the
target's own. `DecoderRunner` manages its cache slots, buckets and graphs.

Dimension key: W positions fed at once, E hidden size, H query heads, K key/value heads, D head size, L visible slots,
Vd draft words, V the target's vocabulary. Position t reads the target's features of token t and the embedding of
token t + 1, and guesses token t + 2.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from pydantic import BaseModel, NonNegativeInt, PositiveInt, ValidationError, field_validator

from engine.config import EAGLE3_HEAD
from engine.errors import Unavailable, explain
from engine.models.attention import CachedAttention, Span, rotary_frequencies
from engine.models.kv_cache import KVCache
from engine.models.linear import linear_for
from engine.models.llama import LlamaModel
from engine.models.safetensors_reader import TensorReader


class EagleLayers(BaseModel, strict=True):
    eagle_aux_hidden_state_layer_ids: tuple[NonNegativeInt, ...]

    @field_validator("eagle_aux_hidden_state_layer_ids")
    @classmethod
    def _is_ascending(cls, layers: tuple[int, ...]) -> tuple[int, ...]:
        if not layers or list(layers) != sorted({*layers}):
            raise ValueError("layers must be named once each, from low to high")
        return layers


class EagleConfig(BaseModel, strict=True):
    """The fields of a head's config.json that decoding needs."""

    hidden_size: PositiveInt
    vocab_size: PositiveInt
    draft_vocab_size: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt
    intermediate_size: PositiveInt
    rms_norm_eps: float
    eagle_config: EagleLayers
    architectures: list[str] = [EAGLE3_HEAD]

    @field_validator("architectures")
    @classmethod
    def _is_head(cls, names: list[str]) -> list[str]:
        if names != [EAGLE3_HEAD]:
            raise ValueError(f"must be {EAGLE3_HEAD}")
        return names


class EagleModel:
    """``reads``: layers of the target whose incoming states it reads; ``words`` [Vd]: the target ids it can guess."""

    layers_count = 1
    taps = ()

    def __init__(self, folder: Path, target: LlamaModel, packed=None, config: EagleConfig | None = None, weights=None):
        """``config`` and ``weights`` replace those of the folder."""
        config = config or read_config(folder)
        self.config, self.target, self.dtype, self.device = config, target, target.dtype, target.device
        self.H, self.K, self.D = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.inner, self.eps = config.intermediate_size, config.rms_norm_eps
        self.vocab_size, self.max_length = config.draft_vocab_size, target.max_length
        self.reads = config.eagle_config.eagle_aux_hidden_state_layer_ids
        self.width = target.width
        made_for = (config.hidden_size, config.vocab_size)
        if made_for != (target.width, target.vocab_size):
            raise Unavailable(
                f"The head in {folder} was made for a target of width {made_for[0]} and {made_for[1]} words, this one "
                f"has {target.width} and {target.vocab_size}; use the target it was made for."
            )
        if max(self.reads) > target.layers_count:
            raise Unavailable(
                f"The head in {folder} reads layer {max(self.reads)}, but this target has {target.layers_count} "
                "layers; use the target it was made for."
            )
        self._load(weights or TensorReader(folder, target.dtype, target.device), packed)
        self.frequencies, self.rope_scaling = rotary_frequencies(target.config, self.D, self.device)

    def _load(self, weights: TensorReader, packed: bool | None) -> None:
        E, Vd, heads, shared, at = self.width, self.vocab_size, self.H * self.D, self.K * self.D, "midlayer."
        linear = linear_for(self.dtype, self.device, packed, bits=8)

        def fused(names: dict[str, int], width: int):
            return linear(torch.cat([weights(f"{at}{n}_proj.weight", (size, width)) for n, size in names.items()]))

        # Not in 8 bits, because the target's states have outliers a hundred times larger than the rest.
        self.fc = linear_for(self.dtype, self.device, packed)(weights("fc.weight", (E, len(self.reads) * E)))
        self.norm_embed = weights(at + "input_layernorm.weight", (E,))
        self.norm_hidden = weights(at + "hidden_norm.weight", (E,))
        self.norm_mid = weights(at + "post_attention_layernorm.weight", (E,))
        self.norm = weights("norm.weight", (E,))
        self.qkv = fused({"self_attn.q": heads, "self_attn.k": shared, "self_attn.v": shared}, 2 * E)
        self.out = fused({"self_attn.o": E}, heads)
        self.gate_up = fused({"mlp.gate": self.inner, "mlp.up": self.inner}, E)
        self.down = fused({"mlp.down": E}, self.inner)
        self.head = linear(weights("lm_head.weight", (Vd, E)))
        self.words = word_ids(weights.raw("d2t"), self.target.vocab_size, weights.folder).to(self.device)
        if len(self.words) != Vd:
            raise Unavailable(f"The vocabulary map in {weights.folder} has {len(self.words)} words, not {Vd}.")

    def new_cache(self, slots: int) -> KVCache:
        return KVCache(1, self.K, slots, self.D, self.dtype, self.device)

    def forward(self, ids, spans: Sequence[Span], rows=slice(None), features=None, state=None):
        """Runs one pass. ids [W]: token t + 1 at position t, of all ``spans``; with ``features`` [W, taps·E] of the
        target, or ``state`` [W, E], the head's own from the step before. Returns logits [rows, Vd] and the outgoing
        state [rows, E]."""
        hidden = self.fc(features) if state is None else state
        attend = CachedAttention(spans, self.H // self.K, self.frequencies, self.rope_scaling, hidden.dtype)
        embedded = self._rms_norm(self.target.embedding(ids), self.norm_embed)
        x = torch.cat([embedded, self._rms_norm(hidden, self.norm_hidden)], -1)
        hidden = hidden + self._attend(x, attend)
        gate_up = self.gate_up(self._rms_norm(hidden, self.norm_mid))
        hidden = hidden + self.down(F.silu(gate_up[:, : self.inner]) * gate_up[:, self.inner :])
        if rows is None:
            return None, None
        hidden = hidden[rows]
        return self.head(self._rms_norm(hidden, self.norm)), hidden

    def _attend(self, x: torch.Tensor, attend: CachedAttention) -> torch.Tensor:
        qk, v = self.qkv(x).view(len(x), self.H + 2 * self.K, self.D).split([self.H + self.K, self.K], 1)
        return self.out(attend(qk, v, 0))

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)


def read_config(folder: Path) -> EagleConfig:
    """Reads the head's config.json. Unavailable names the wrong field."""
    path = Path(folder) / "config.json"
    try:
        return EagleConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise Unavailable(f"There is no EAGLE head in {folder}: config.json cannot be read.") from error
    except ValidationError as error:
        raise Unavailable(f"{path} describes no EAGLE-3 head ({EAGLE3_HEAD}): {explain(error)}.") from error


def word_ids(d2t: torch.Tensor, vocabulary: int, folder: Path) -> torch.Tensor:
    """Returns target ids [Vd]; the stored map holds target id − draft id of each draft word. Unavailable if wrong.

    >>> word_ids(torch.tensor([0, 0, 5]), 10, Path("."))     # draft word 2 is target word 7
    tensor([0, 1, 7])
    """
    flat = d2t.dtype == torch.int64 and d2t.ndim == 1 and len(d2t) > 0
    words = d2t + torch.arange(len(d2t)) if flat else torch.tensor([-1])
    if int(words.min()) < 0 or int(words.max()) >= vocabulary or len(words.unique()) != len(words):
        raise Unavailable(f"The vocabulary map (d2t) in {folder} names words that the target does not have, or twice.")
    return words
