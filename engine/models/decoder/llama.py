"""Runs the forward pass of the Llama family (Llama, SmolLM2, TinyLlama, Mistral, Qwen2, Qwen3).

Knows tensors and slots, not sampling or rounds. One pass may hold tokens of several sequences: the products see them as
one matrix, attention sees each alone. The same code runs eagerly on a CPU and inside a captured CUDA graph: every
position comes in as a tensor, and the KV cache is written in place.

Dimension key: T tokens scored at once, E hidden size, H query heads, K key/value heads, G = H/K, D head size,
L visible slots, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import PretrainedConfig

from engine.errors import Unavailable
from engine.models.decoder.attention import CachedAttention, SequenceSlice, rotary_frequencies
from engine.models.decoder.config import context_length, head_size, unsupported_reason
from engine.models.decoder.kv_cache import KVCache
from engine.models.decoder.unread_tensors import check_all_read, check_layers, embedding_name, reads_own_head
from engine.models.tensors.gguf_reader import open_weights
from engine.models.tensors.linear import Linear, fuse


@dataclass(slots=True)
class Layer:
    norm_in: torch.Tensor
    qkv: Linear
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    out: Linear
    norm_mid: torch.Tensor
    gate_up: Linear
    down: Linear


class LlamaSizes:
    """The sizes of a model of the family, by its config.json, in torch and in ONNX Runtime. ``taps``: layers whose
    incoming hidden states are returned, too. Raises Unavailable for other architectures."""

    dtype: torch.dtype
    device: str
    spare = 0  # slots of a cache beyond one for each token

    def __init__(self, config: PretrainedConfig):
        if reason := unsupported_reason(config):
            raise Unavailable(f"This model cannot run on the fast decoder: {reason}.")
        self.config = config
        self.H, self.K, self.D = config.num_attention_heads, config.num_key_value_heads, head_size(config)
        self.layers_count, self.inner = config.num_hidden_layers, config.intermediate_size
        self.eps = config.rms_norm_eps
        self.width, self.vocab_size, self.max_length = config.hidden_size, config.vocab_size, context_length(config)
        self.taps: tuple[int, ...] = ()

    def new_cache(self, slots: int) -> KVCache:
        return KVCache(self.layers_count, self.K, slots, self.D, self.dtype, self.device, spare=self.spare)


class LlamaModel(LlamaSizes):
    """Loads a checkpoint folder and scores tokens. ``is_tied``: whether its output layer is its embedding. ``weights``:
    a replacement for the folder's reader."""

    on_host = False  # its places come in as tensors, so that a pass can be captured
    same_bits = None  # never tried
    trees = True

    def __init__(
        self, folder: Path, config: PretrainedConfig, dtype: torch.dtype, device: str, progress=None, weights=None
    ):
        super().__init__(config)
        self.dtype, self.device = dtype, device
        self._load(weights or open_weights(folder, dtype, device), progress)
        self.frequencies, self.rope_scaling = rotary_frequencies(config, self.D, device)

    def _load(self, weights, progress) -> None:
        E, V = self.config.hidden_size, self.vocab_size
        check_layers(weights, self.config, weights.folder)
        self.embed = weights(embedding_name(weights, self.config), (V, E))
        self.layers = []
        for i in range(self.layers_count):
            self.layers.append(self._layer(weights, f"model.layers.{i}."))
            if progress:
                progress((i + 1) / self.layers_count)
        self.norm = weights("model.norm.weight", (E,))
        self.is_tied = not reads_own_head(weights, self.config)
        self.head = Linear(self.embed if self.is_tied else weights("lm_head.weight", (V, E)))
        check_all_read(weights)

    def _layer(self, weights, at: str) -> Layer:
        E, heads, shared = self.config.hidden_size, self.H * self.D, self.K * self.D

        def optional(name: str, size: int):
            return weights(at + name, (size,)) if at + name in weights else None

        return Layer(
            weights(at + "input_layernorm.weight", (E,)),
            fuse(weights, at, {"self_attn.q": heads, "self_attn.k": shared, "self_attn.v": shared}, E),
            optional("self_attn.q_norm.weight", self.D),
            optional("self_attn.k_norm.weight", self.D),
            fuse(weights, at, {"self_attn.o": E}, heads),
            weights(at + "post_attention_layernorm.weight", (E,)),
            fuse(weights, at, {"mlp.gate": self.inner, "mlp.up": self.inner}, E),
            fuse(weights, at, {"mlp.down": E}, self.inner),
        )

    def embedding(self, ids: torch.Tensor) -> torch.Tensor:
        """Embeds ids [T] as [T, E]."""
        return F.embedding(ids, self.embed)

    def forward(
        self, ids: torch.Tensor, spans: Sequence[SequenceSlice], rows: slice | torch.Tensor | None = slice(None)
    ):
        """Runs one pass. ids [T]: the tokens of all ``spans`` in order.

        Returns logits [rows, V] (None when ``rows`` is None) and features [T, taps·E] (None without taps).
        """
        x, features = self.states(ids, spans)
        if rows is None:
            return None, features
        return self.head(self.norm_out(x[rows])), features

    def states(self, ids: torch.Tensor, spans: Sequence[SequenceSlice], count: int | None = None):
        """Returns the states [T, E] after the first ``count`` layers, by default all, and features like `forward`."""
        x = self.embedding(ids)  # [T, E]
        attend = CachedAttention(spans, self.H // self.K, self.frequencies, self.rope_scaling, x.dtype)
        tapped, count = [], self.layers_count if count is None else count
        for i, layer in enumerate(self.layers[:count]):
            if i in self.taps:
                tapped.append(x)
            x = x + self._attend(x, layer, attend, i)
            gate_up = layer.gate_up(self._rms_norm(x, layer.norm_mid))
            x = x + layer.down(F.silu(gate_up[:, : self.inner]) * gate_up[:, self.inner :])
        if count in self.taps:
            tapped.append(x)
        return x, torch.cat(tapped, -1) if tapped else None

    def norm_out(self, x: torch.Tensor) -> torch.Tensor:
        """Norms the states [T, E] after the last layer for the output layer."""
        return self._rms_norm(x, self.norm)

    def _attend(self, x: torch.Tensor, layer: Layer, attend: CachedAttention, i: int) -> torch.Tensor:
        H, K, D = self.H, self.K, self.D
        qk, v = layer.qkv(self._rms_norm(x, layer.norm_in)).view(len(x), H + 2 * K, D).split([H + K, K], 1)
        if layer.q_norm is not None:
            assert layer.k_norm is not None, "a layer norms both or neither"
            qk = torch.cat([self._rms_norm(qk[:, :H], layer.q_norm), self._rms_norm(qk[:, H:], layer.k_norm)], 1)
        return layer.out(attend(qk, v, i))

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)
