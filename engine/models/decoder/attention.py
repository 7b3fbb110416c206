"""Computes grouped-query attention on in-place KV caches, with Llama's rotary embedding.

One pass may hold tokens of several sequences. Each sequence attends to its own cache alone.

Dimension key: T tokens of a pass, W tokens of one sequence, H query heads, K key/value heads, G = H/K, D head size, L
visible slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.models.decoder.kv_cache import KVCache

Rotary = tuple[torch.Tensor, torch.Tensor]


def rope(config) -> dict:
    return {"rope_type": "default", **(getattr(config, "rope_parameters", None) or {})}


def rotary_frequencies(config, head_dim: int, device: str) -> tuple[torch.Tensor, float]:
    """Returns radians per position [D/2], and the factor of cosines and sines."""
    parameters = rope(config)
    kind, scaling = parameters["rope_type"], 1.0
    if kind == "default":
        inverse = 1.0 / parameters["rope_theta"] ** (torch.arange(0, head_dim, 2).float() / head_dim)
    else:
        inverse, scaling = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
    return inverse.to(device), scaling


def rotary_tables(positions: torch.Tensor, frequencies: torch.Tensor, scaling: float, dtype: torch.dtype) -> Rotary:
    """Returns cosines and signed sines [W, 1, D] of positions [W], as `apply_rotary` takes them."""
    angle = positions.float()[:, None] * frequencies  # [W, D/2]
    cos, sin = angle.cos() * scaling, angle.sin() * scaling
    return torch.cat([cos, cos], -1)[:, None].to(dtype), torch.cat([-sin, sin], -1)[:, None].to(dtype)


def apply_rotary(x: torch.Tensor, cos: torch.Tensor, signed_sin: torch.Tensor) -> torch.Tensor:
    """Turns x [W, heads, D] as Llama checkpoints store it: in halves, (a, b) → (a·cos − b·sin, b·cos + a·sin)."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), signed_sin)


def grouped_mask(mask: torch.Tensor | None, groups: int, dtype: torch.dtype) -> torch.Tensor | None:
    """Makes mask [G·W, L] of mask [W, L] bool, 0 where it may look and −∞ elsewhere: the G query heads that share a key
    head become rows of one attention call. It is made once a pass, because torch would convert a bool mask in every
    layer."""
    if mask is None:
        return None
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf).repeat(groups, 1)


@dataclass(frozen=True, slots=True)
class SequenceSlice:
    """One sequence's tokens in a pass. slots [W]: where in ``cache`` their keys and values go; positions [W];
    ``visible``: the number of slots that are read; mask [W, visible] bool, or None where every token sees them all.
    `DecoderRunner.span` in runner.py makes it, a tree's mask by tree_shape.py."""

    slots: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor | None
    visible: int
    cache: KVCache


@dataclass(frozen=True, slots=True)
class HostSequenceSlice:
    """A `SequenceSlice` for a pass that takes its places as numbers: its W tokens (``width``) lie in the slots from
    ``start`` on. ``shape``: depth [W] below the root and ancestors [W, M] of tokens that are the last W of a tree's M
    nodes, or None."""

    start: int
    width: int
    shape: tuple[np.ndarray, np.ndarray] | None
    cache: KVCache


class CachedAttention:
    """The attention of one pass, made once and called by every layer. ``groups``: G; ``frequencies`` and ``scaling`` as
    `rotary_frequencies` returns them."""

    def __init__(self, spans: Sequence[SequenceSlice], groups: int, frequencies, scaling: float, dtype: torch.dtype):
        self.groups, self.widths = groups, [len(span.slots) for span in spans]
        positions = spans[0].positions if len(spans) == 1 else torch.cat([span.positions for span in spans])
        self.rotary = rotary_tables(positions, frequencies, scaling, dtype)
        self.sequences = [_Sequence(span, groups, dtype) for span in spans]

    def __call__(self, qk: torch.Tensor, v: torch.Tensor, layer: int) -> torch.Tensor:
        """Writes the tokens' keys and values, then attends. qk [T, H + K, D], v [T, K, D] → [T, H·D]"""
        K = v.shape[1]
        q, k = apply_rotary(qk, *self.rotary).split([qk.shape[1] - K, K], 1)
        parts = zip(self.sequences, q.split(self.widths), k.split(self.widths), v.split(self.widths), strict=True)
        out = [sequence.attend(*part, layer) for sequence, *part in parts]
        return out[0] if len(out) == 1 else torch.cat(out)


class _Sequence:
    """A span with what all layers share: views of its cache, one a layer, and its mask as `grouped_mask` makes it."""

    def __init__(self, span: SequenceSlice, groups: int, dtype: torch.dtype):
        self.slots, self.mask = span.slots, grouped_mask(span.mask, groups, dtype)
        self.keys, self.values = span.cache.keys.unbind(), span.cache.values.unbind()  # [K, slots, D] each
        self.seen_keys, self.seen_values = (
            side[:, None, :, : span.visible].unbind() for side in (span.cache.keys, span.cache.values)
        )  # [1, K, L, D] each

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: int) -> torch.Tensor:
        """Attends with q [W, H, D] over k and v [W, K, D]. Returns [W, H·D]."""
        W, K, D = v.shape
        self.keys[layer].index_copy_(1, self.slots, k.transpose(0, 1))
        self.values[layer].index_copy_(1, self.slots, v.transpose(0, 1))
        q = q.view(W, K, -1, D).permute(1, 2, 0, 3).reshape(1, K, -1, D)  # [1, K, G·W, D]
        out = F.scaled_dot_product_attention(q, self.seen_keys[layer], self.seen_values[layer], attn_mask=self.mask)
        return out.view(K, -1, W, D).permute(2, 0, 1, 3).reshape(W, -1)
