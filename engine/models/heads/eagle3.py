"""Runs an EAGLE-3 head: the layer of `tools/training/eagle3_module.py`, in place on a KV cache.

Loads the layouts of SafeAILab, SGLang and SpecForge, of vLLM and of the speculators library, with one layer or several.
The embedding is the target's own unless the head brings another, and so are the output layer's rows. `DecoderRunner`
manages its cache slots, buckets and graphs.

Dimension key: W positions fed at once, E hidden size, F the target's, H query heads, K key/value heads, D head size,
L visible slots, Vd draft words, V the target's vocabulary. Position t reads the target's features of token t and the
embedding of token t + 1, and guesses token t + 2.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from engine.errors import Unavailable
from engine.models.decoder.attention import CachedAttention, SequenceSlice, rotary_frequencies
from engine.models.decoder.kv_cache import KVCache
from engine.models.heads.eagle_config import EagleConfig, read_config
from engine.models.heads.layer import HeadLayer
from engine.models.heads.reader import HeadReader
from engine.models.heads.reduced_output import KNOWN, MAP, ROWS, mapped_words, output_rows
from engine.models.tensors.grouped import GroupedWeight
from engine.models.tensors.linear import Linear
from engine.models.tensors.safetensors_reader import TensorReader

FIRST = "layers.0."  # how the names of the first layer's tensors begin
EMBEDDING = "embed_tokens.weight"
_COMPARED = 4096  # rows of an embedding at once


class EagleModel:
    """``reads``: layers of the target whose incoming states it reads; ``target_ids`` [Vd]: its words; ``window``:
    tokens that it attends to, None for all; ``embed`` [V, E]: an embedding of its own."""

    taps, on_host, trees, spare = (), False, True, 0

    def __init__(self, folder: Path, target: Any, config: EagleConfig | None = None, weights=None):
        """Loads the head; ``config`` and ``weights`` replace the folder's own."""
        config = config or read_config(folder)
        weights = weights or HeadReader(folder, target.dtype, target.device)
        if config.head_dim is None:
            rows = len(weights.raw(f"{FIRST}self_attn.q_proj.weight"))
            config = config.model_copy(update={"head_dim": rows // config.num_attention_heads})
        self.config, self.target, self.dtype, self.device = config, target, target.dtype, target.device
        self.layers_count = config.num_hidden_layers or _layers_stored(weights)
        self.H, self.K = config.num_attention_heads, config.num_key_value_heads
        self.D: Any = config.head_dim
        self.inner, self.eps, self.window = config.intermediate_size, config.rms_norm_eps, config.window
        self.max_length = min(target.max_length, config.longest or target.max_length)
        self.reads, self.width = self._layers_read(config, target), config.hidden_size
        self._check_target(folder)
        self.frequencies, self.rope_scaling = self._rotary(folder)
        self.target_ids = self._target_ids(weights).to(self.device)
        self.vocab_size = len(self.target_ids)
        self.embed = self._own_embedding(weights)
        self._norms_before = self._read_norms(weights)
        self._load(weights)

    def _check_target(self, folder: Path) -> None:
        """Raises Unavailable for a target that it was not made for."""
        config, target = self.config, self.target
        made_for = (config.target_hidden_size or config.hidden_size, config.vocab_size)
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

    def _rotary(self, folder: Path) -> tuple[torch.Tensor, float]:
        try:
            return rotary_frequencies(self.config.rotary(), self.D, self.device)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise Unavailable(
                f"The rotary settings of the head in {folder} are wrong ({error.args[0]}); correct its config.json."
            ) from error

    def _read_norms(self, weights: TensorReader) -> torch.Tensor | None:
        """Returns the weights of the norms before `fc`: [taps, F] if each state has one, [1, taps·F] if all have one
        together, None without norms."""
        taps, width = len(self.reads), self.target.width
        if self.config.fc_norm:
            return torch.stack([weights(f"fc_norm.{i}.weight", (width,)) for i in range(taps)])
        return weights("input_norm.weight", (taps * width,))[None] if self.config.norm_before_fc else None

    def _layers_read(self, config: EagleConfig, target: Any) -> tuple[int, ...]:
        return config.reads(target.layers_count)

    def _target_ids(self, weights: TensorReader) -> torch.Tensor:
        """Returns the target's id of each word that it can guess. Raises Unavailable for a map that does not fit."""
        count, vocabulary = self.config.draft_vocab_size, self.target.vocab_size
        if MAP not in weights:
            knows_all = KNOWN not in weights or bool(weights.raw(KNOWN).bool().all())
            if knows_all and count in (None, vocabulary):
                return torch.arange(vocabulary)
            raise Unavailable(
                f"The head in {weights.folder} guesses among some of the target's {vocabulary} words, but the map of "
                f"its words ({MAP}) is missing; fetch or export it again."
            )
        words = mapped_words(weights, vocabulary)
        if count not in (None, len(words)):
            raise Unavailable(f"The vocabulary map in {weights.folder} has {len(words)} words, not {count}.")
        return words

    def _own_embedding(self, weights: TensorReader) -> torch.Tensor | None:
        """Reads the embedding [V, E] as it is stored, where it is not the target's."""
        if EMBEDDING not in weights:
            if self.width != self.target.width:
                raise Unavailable(
                    f"The head in {weights.folder} is {self.width} wide and its target {self.target.width}, so it "
                    f"needs an embedding of its own ({EMBEDDING}), which it does not bring."
                )
            return None
        own = weights.raw(EMBEDDING)
        own = own if own.is_floating_point() else weights(EMBEDDING)
        if own.dim() != 2 or own.shape[1] != self.width or len(own) < self.target.vocab_size:
            raise Unavailable(
                f"{EMBEDDING} in {weights.folder} is {tuple(own.shape)}, where this target needs "
                f"{(self.target.vocab_size, self.width)}; use the target it was made for."
            )
        return None if self._is_targets(own) else own.to(self.device)

    def _is_targets(self, own: torch.Tensor) -> bool:
        if own.shape != (self.target.vocab_size, self.target.width):
            return False
        chunks = torch.arange(len(own)).split(_COMPARED)
        return all(
            torch.equal(self.target.embedding(ids.to(self.device)).to("cpu", own.dtype), own[ids]) for ids in chunks
        )

    def _load(self, weights: TensorReader) -> None:
        E, at = self.width, FIRST
        bias = weights("fc.bias", (E,)) if "fc.bias" in weights else None
        self.fc = Linear(weights("fc.weight", (E, len(self.reads) * self.target.width)), bias)
        self.norm_embed = weights(at + "input_layernorm.weight", (E,))
        self.norm_hidden = weights(at + "hidden_norm.weight", (E,))
        self.norm = weights("norm.weight", (E,))
        self.layer = HeadLayer(self, weights, at, 2 * E)
        self._load_further(weights)
        self.head = Linear(self._output_rows(weights))

    def _load_further(self, weights: TensorReader) -> None:
        """Loads the layers after the first, each with the norm before it."""
        self.further = [
            (weights(further_norm(weights, i), (self.width,)), HeadLayer(self, weights, f"layers.{i}.", self.width))
            for i in range(1, self.layers_count)
        ]

    def _output_rows(self, weights: TensorReader) -> torch.Tensor | GroupedWeight:
        """Returns the output layer's rows of its words [Vd, E]: its own, or its embedding's, or the target's."""
        if ROWS in weights:
            return weights(ROWS, (self.vocab_size, self.width))
        if self.config.tie_word_embeddings or self.width != self.target.width:
            return self._embedding(self.target_ids)
        return output_rows(weights, self.target, self.target_ids)

    def new_cache(self, slots: int) -> KVCache:
        return KVCache(self.layers_count, self.K, slots, self.D, self.dtype, self.device, spare=self.spare)

    def forward(self, ids, spans: Sequence[SequenceSlice], rows=slice(None), features: Any = None, state: Any = None):
        """Runs one pass. ids [W]: token t + 1 at position t, of all ``spans``; with ``features`` [W, taps·F] of the
        target, or ``state`` [W, E], the head's own from the step before. Returns logits [rows, Vd] and the outgoing
        state [rows, E]."""
        hidden = self._fuse_features(features) if state is None else state
        attend = CachedAttention(spans, self.H // self.K, self.frequencies, self.rope_scaling, hidden.dtype)
        embedded = self._rms_norm(self._embedding(ids), self.norm_embed)
        normed = self._rms_norm(hidden, self.norm_hidden)
        residual = normed if self.config.norm_before_residual else hidden
        hidden = self.layer(torch.cat([embedded, normed], -1), residual, attend, 0)
        return self._outputs(self._through_further(hidden, attend), rows)

    def _through_further(self, hidden: torch.Tensor, attend: CachedAttention) -> torch.Tensor:
        for i, (norm, layer) in enumerate(self.further, start=1):
            hidden = layer(self._rms_norm(hidden, norm), hidden, attend, i)
        return hidden

    def _fuse_features(self, features: torch.Tensor) -> torch.Tensor:
        """Fuses features [W, taps·F] to [W, E]."""
        return self.fc(self._norm_features(features))

    def _norm_features(self, features: torch.Tensor) -> torch.Tensor:
        """Norms features [W, taps·F] as `fc` reads them."""
        norms = self._norms_before
        if norms is None:
            return features
        parts = features.view(len(features), *norms.shape)
        return (F.rms_norm(parts, norms.shape[1:], None, self.eps) * norms).flatten(1)

    def _embedding(self, ids: torch.Tensor) -> torch.Tensor:
        return self.target.embedding(ids) if self.embed is None else F.embedding(ids, self.embed).to(self.dtype)

    def _outputs(self, hidden: torch.Tensor, rows):
        if rows is None:
            return None, None
        hidden = hidden[rows]
        return self._logits(hidden), self._rms_norm(hidden, self.norm) if self.config.norm_output else hidden

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.head(self._rms_norm(hidden, self.norm))

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)


def further_norm(weights, layer: int) -> str:
    """Returns the name of the norm before a layer after the first; SGLang has `hidden_norm` in its place."""
    own, theirs = (f"layers.{layer}.{name}.weight" for name in ("input_layernorm", "hidden_norm"))
    return theirs if theirs in weights and own not in weights else own


def _layers_stored(weights: TensorReader) -> int:
    return max((int(name.split(".")[1]) + 1 for name in weights.names if name.startswith("layers.")), default=1)
