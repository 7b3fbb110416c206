"""Runs an EAGLE-3 head: the layer of `training/eagle3_module.py`, in place on a KV cache.

Loads the layout of SGLang and SpecForge (`midlayer.*`, `fc`, `norm`, `lm_head`, `d2t`) and that of the speculators
library (`layers.0.*`); the embedding is the target's own. `DecoderRunner` manages its cache slots, buckets and graphs.

Dimension key: W positions fed at once, E hidden size, H query heads, K key/value heads, D head size, L visible slots,
Vd draft words, V the target's vocabulary. Position t reads the target's features of token t and the embedding of
token t + 1, and guesses token t + 2.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F

from engine.errors import Unavailable
from engine.models.attention import CachedAttention, SequenceSlice, rotary_frequencies
from engine.models.eagle_config import EagleConfig, read_config
from engine.models.kv_cache import KVCache
from engine.models.linear import Linear
from engine.models.llama import LlamaModel
from engine.models.reduced_output import word_ids
from engine.models.safetensors_reader import TensorReader


class HeadLayer:
    """A decoder layer whose input is normed outside. ``width``: numbers of its attention's input."""

    def __init__(self, model, weights: TensorReader, at: str, width: int):
        heads, shared = model.H * model.D, model.K * model.D

        def fused(sizes: dict[str, int], width: int):
            names = {f"{at}{name}_proj": size for name, size in sizes.items()}
            rows = torch.cat([weights(f"{name}.weight", (size, width)) for name, size in names.items()])
            if not any(f"{name}.bias" in weights for name in names):
                return Linear(rows)
            return Linear(rows, torch.cat([weights(f"{name}.bias", (size,)) for name, size in names.items()]))

        self.H, self.K, self.D, self.inner, self.eps = model.H, model.K, model.D, model.inner, model.eps
        self.norm_mid = weights(at + "post_attention_layernorm.weight", (model.width,))
        self.qkv = fused({"self_attn.q": heads, "self_attn.k": shared, "self_attn.v": shared}, width)
        self.out = fused({"self_attn.o": model.width}, heads)
        self.gate_up = fused({"mlp.gate": model.inner, "mlp.up": model.inner}, model.width)
        self.down = fused({"mlp.down": model.width}, model.inner)

    def __call__(self, x: torch.Tensor, residual: torch.Tensor, attend: CachedAttention, layer: int) -> torch.Tensor:
        """Attention over ``x`` and the MLP, both added to ``residual`` [W, E]; ``layer``: its number in the cache."""
        qk, v = self.qkv(x).view(len(x), self.H + 2 * self.K, self.D).split([self.H + self.K, self.K], 1)
        hidden = residual + self.out(attend(qk, v, layer))
        gate_up = self.gate_up(F.rms_norm(hidden, self.norm_mid.shape, self.norm_mid, self.eps))
        return hidden + self.down(F.silu(gate_up[:, : self.inner]) * gate_up[:, self.inner :])


class EagleModel:
    """``reads``: layers of the target whose incoming states it reads; ``target_ids`` [Vd]: of its words."""

    taps, on_host, trees, spare = (), False, True, 0

    def __init__(self, folder: Path, target: LlamaModel, config: EagleConfig | None = None, weights=None):
        """``config`` and ``weights`` replace those of the folder."""
        config = config or read_config(folder)
        self.config, self.target, self.dtype, self.device = config, target, target.dtype, target.device
        self.layers_count = config.num_hidden_layers
        self.H, self.K, self.D = config.num_attention_heads, config.num_key_value_heads, config.head_size
        self.inner, self.eps = config.intermediate_size, config.rms_norm_eps
        self.vocab_size, self.max_length = config.draft_vocab_size or config.vocab_size, target.max_length
        self.reads = self._layers_read(config, target)
        self.width = target.width
        made_for = (config.hidden_size, config.vocab_size)
        if made_for != (target.width, target.vocab_size):
            raise Unavailable(
                f"The head in {folder} was made for a target of width {made_for[0]} and {made_for[1]} words, this one "
                f"has {target.width} and {target.vocab_size}; use the target it was made for."
            )
        if not 0 <= min(self.reads) <= max(self.reads) <= target.layers_count or len({*self.reads}) < len(self.reads):
            raise Unavailable(
                f"The head in {folder} reads layers {', '.join(map(str, self.reads))}, but this target has "
                f"{target.layers_count}; use the target it was made for."
            )
        self.frequencies, self.rope_scaling = rotary_frequencies(config.rotary(target.config), self.D, self.device)
        weights = weights or TensorReader(folder, target.dtype, target.device)
        self.target_ids = self._target_ids(weights).to(self.device)
        self._norms_before = self._read_norms(weights)
        self._load(weights)

    def _read_norms(self, weights: TensorReader) -> torch.Tensor | None:
        """Of the target's states before `fc`: [taps, E] of one norm each, [1, taps·E] of one for all, None of none."""
        if self.config.fc_norm:
            return torch.stack([weights(f"fc_norm.{i}.weight", (self.width,)) for i in range(len(self.reads))])
        if self.config.norm_before_fc:
            return weights("input_norm.weight", (len(self.reads) * self.width,))[None]
        return None

    def _layers_read(self, config: EagleConfig, target: LlamaModel) -> tuple[int, ...]:
        return config.reads(target.layers_count)

    def _target_ids(self, weights: TensorReader) -> torch.Tensor:
        """The target's id of each word that it can guess. Raises Unavailable for a map that does not fit."""
        is_mapped = self.vocab_size != self.target.vocab_size or "d2t" in weights
        if not is_mapped:
            return torch.arange(self.vocab_size)
        words = word_ids(weights.raw("d2t"), self.target.vocab_size, weights.folder)
        if len(words) != self.vocab_size:
            raise Unavailable(f"The vocabulary map in {weights.folder} has {len(words)} words, not {self.vocab_size}.")
        return words

    def _load(self, weights: TensorReader) -> None:
        E = self.width
        at = first_layer(weights)
        self.fc = Linear(weights("fc.weight", (E, len(self.reads) * E)))
        self.norm_embed = weights(at + "input_layernorm.weight", (E,))
        self.norm_hidden = weights(at + "hidden_norm.weight", (E,))
        self.norm = weights("norm.weight", (E,))
        self.layer, self.further = HeadLayer(self, weights, at, 2 * E), []
        for at in (f"layers.{i}." for i in range(1, self.layers_count)):
            norm = weights(at + "input_layernorm.weight", (E,))
            self.further.append((norm, HeadLayer(self, weights, at, E)))
        self.head = Linear(self._output_rows(weights))

    def _output_rows(self, weights: TensorReader) -> torch.Tensor:
        """Of its words [Vd, E]."""
        return weights("lm_head.weight", (self.vocab_size, self.width))

    def new_cache(self, slots: int) -> KVCache:
        return KVCache(self.layers_count, self.K, slots, self.D, self.dtype, self.device)

    def forward(self, ids, spans: Sequence[SequenceSlice], rows=slice(None), features=None, state=None):
        """Runs one pass. ids [W]: token t + 1 at position t, of all ``spans``; with ``features`` [W, taps·E] of the
        target, or ``state`` [W, E], the head's own from the step before. Returns logits [rows, Vd] and the outgoing
        state [rows, E]."""
        hidden = self._projected(features) if state is None else state
        attend = CachedAttention(spans, self.H // self.K, self.frequencies, self.rope_scaling, hidden.dtype)
        embedded = self._rms_norm(self._embedding(ids), self.norm_embed)
        normed = self._rms_norm(hidden, self.norm_hidden)
        residual = normed if self.config.norm_before_residual else hidden
        hidden = self.layer(torch.cat([embedded, normed], -1), residual, attend, 0)
        for i, (norm, layer) in enumerate(self.further, start=1):
            hidden = layer(self._rms_norm(hidden, norm), hidden, attend, i)
        return self._outputs(hidden, rows)

    def _projected(self, features: torch.Tensor) -> torch.Tensor:
        """features [W, taps·E] → [W, E]"""
        return self.fc(self._normed(features))

    def _normed(self, features: torch.Tensor) -> torch.Tensor:
        """[W, taps·E] as `fc` reads them."""
        norms = self._norms_before
        if norms is None:
            return features
        parts = features.view(len(features), *norms.shape)
        return (F.rms_norm(parts, norms.shape[1:], None, self.eps) * norms).flatten(1)

    def _embedding(self, ids: torch.Tensor) -> torch.Tensor:
        return self.target.embedding(ids)

    def _outputs(self, hidden: torch.Tensor, rows):
        if rows is None:
            return None, None
        hidden = hidden[rows]
        return self._logits(hidden), self._rms_norm(hidden, self.norm) if self.config.norm_output else hidden

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.head(self._rms_norm(hidden, self.norm))

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)


def first_layer(weights) -> str:
    """Returns how the names of the first layer's tensors begin."""
    return "layers.0." if "layers.0.hidden_norm.weight" in weights else "midlayer."
