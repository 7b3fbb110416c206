"""Grouped-query attention on an in-place KV cache, with Llama's rotary embedding.

Dimension key: W tokens scored at once, H query heads, K key/value heads, G = H/K, D head size, L visible slots.
"""

import torch
import torch.nn.functional as F
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

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
    """positions [W] → cosines and signed sines [W, 1, D], as `apply_rotary` takes them."""
    angle = positions.float()[:, None] * frequencies  # [W, D/2]
    cos, sin = angle.cos() * scaling, angle.sin() * scaling
    return torch.cat([cos, cos], -1)[:, None].to(dtype), torch.cat([-sin, sin], -1)[:, None].to(dtype)


def apply_rotary(x: torch.Tensor, cos: torch.Tensor, signed_sin: torch.Tensor) -> torch.Tensor:
    """x [W, heads, D] turned as Llama checkpoints store it: in halves, (a, b) → (a·cos − b·sin, b·cos + a·sin)."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), signed_sin)


def grouped_mask(mask: torch.Tensor | None, groups: int, dtype: torch.dtype) -> torch.Tensor | None:
    """The G query heads that share a key head become rows of one attention call: mask [W, L] bool → [G·W, L], 0 where
    it may look and −∞ elsewhere. Made once a pass; torch would convert a bool mask anew in every layer."""
    if mask is None:
        return None
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf).repeat(groups, 1)


def cached_attention(
    qk, v, rotary: Rotary, slots, mask, visible: int, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    """Write these tokens' keys and values [K, slots, D] in place, then look at the first ``visible`` slots.

    qk [W, H + K, D], v [W, K, D], mask [G·W, visible] of 0 and −∞, or None → [W, H·D].
    """
    W, K, D = v.shape
    H = qk.shape[1] - K
    q, k = apply_rotary(qk, *rotary).split([H, K], 1)
    keys.index_copy_(1, slots, k.transpose(0, 1))
    values.index_copy_(1, slots, v.transpose(0, 1))
    q = q.view(W, K, H // K, D).permute(1, 2, 0, 3).reshape(1, K, -1, D)  # [1, K, G·W, D]
    out = F.scaled_dot_product_attention(q, keys[None, :, :visible], values[None, :, :visible], attn_mask=mask)
    return out.view(K, H // K, W, D).permute(2, 0, 1, 3).reshape(W, H * D)
