"""Defines an EAGLE-3 head as a module to train: token embedding and target features in, its own words out. Its loss, in
distil.py, is the same for every student.

Layer and names as vLLM and SGLang load them (`LlamaForCausalLMEagle3`; Li et al. 2025): `fc` fuses three tapped hidden
states, the layer's attention reads [embedding, fused] side by side, and its outgoing hidden state is what the next
draft step reads in place of target features.

Dimension key: B rows, L positions, E hidden size, H query heads, K key/value heads, D head size, Vd draft words.
At position t the head reads features of token t and the embedding of token t + 1, and guesses token t + 2.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from engine.models.decoder.attention import apply_rotary, rotary_frequencies, rotary_tables

TENSORS = {  # names of the layer's tensors, ours → theirs
    "norm_embed": "input_layernorm.weight",
    "norm_hidden": "hidden_norm.weight",
    "norm_mid": "post_attention_layernorm.weight",
    "q.weight": "self_attn.q_proj.weight",
    "k.weight": "self_attn.k_proj.weight",
    "v.weight": "self_attn.v_proj.weight",
    "o.weight": "self_attn.o_proj.weight",
    "gate.weight": "mlp.gate_proj.weight",
    "up.weight": "mlp.up_proj.weight",
    "down.weight": "mlp.down_proj.weight",
}
FURTHER = TENSORS | {"norm_in": TENSORS["norm_embed"]}  # the names of a plain layer after it
EAGLE_TENSORS = {ours: f"midlayer.{theirs}" for ours, theirs in TENSORS.items()}
EAGLE_TENSORS |= {"fc.weight": "fc.weight", "norm": "norm.weight"}


class EagleHead(nn.Module):
    """``embed`` [V, E] and ``head`` [Vd, E] are the target's own rows and stay as they are. ``is_normed``: as in
    EAGLE-3.1 (arXiv 2605.09992) each tapped state has a norm before `fc`, and the next step reads the state after the
    last norm, so that no state outweighs the others and none grows from step to step."""

    embed: torch.Tensor
    head: torch.Tensor
    inverse: torch.Tensor

    def __init__(self, config, embed: torch.Tensor, head: torch.Tensor, taps: int = 3, is_normed: bool = False):
        super().__init__()
        E, self.eps, inner = config.hidden_size, config.rms_norm_eps, config.intermediate_size
        self.H, self.K = config.num_attention_heads, config.num_key_value_heads
        self.D = getattr(config, "head_dim", None) or E // self.H
        self.register_buffer("embed", embed, persistent=False)
        self.register_buffer("head", head, persistent=False)
        self.fc = nn.Linear(taps * E, E, bias=False)
        self.fc_norm: Any = nn.Parameter(torch.ones(taps, E)) if is_normed else None
        self.norm_embed, self.norm_hidden, self.norm_mid, self.norm = (nn.Parameter(torch.ones(E)) for _ in range(4))
        self.q = nn.Linear(2 * E, self.H * self.D, bias=False)
        self.k = nn.Linear(2 * E, self.K * self.D, bias=False)
        self.v = nn.Linear(2 * E, self.K * self.D, bias=False)
        self.o = nn.Linear(self.H * self.D, E, bias=False)
        self.gate = nn.Linear(E, inner, bias=False)
        self.up = nn.Linear(E, inner, bias=False)
        self.down = nn.Linear(inner, E, bias=False)
        frequencies, self.scaling = rotary_frequencies(config, self.D, "cpu")
        self.register_buffer("inverse", frequencies, persistent=False)

    def rollout(self, ids: torch.Tensor, features: torch.Tensor, steps: int):
        """Drafts from ids [B, L] and features [B, L, taps·E]. Returns for each draft step k = 1 … steps the hidden
        states [B, L, E] from which token t + k + 1 is read, each step fed with the state of the one before it
        ("training-time test").

        Step k at position t sees the first step's keys up to t and the later steps' keys on its own branch only,
        just as a drafting head does. The last k positions of a row are unused.
        """
        L, hidden, seen, states = ids.shape[1], self.fuse(features), [], []
        own = torch.eye(L, dtype=torch.bool, device=ids.device)
        for k in range(1, steps + 1):
            shifted = F.pad(ids[:, k:], (0, k))  # token t + k at position t
            positions = torch.arange(k - 1, k - 1 + L, device=ids.device)[None]
            mask = torch.cat([torch.ones_like(own).tril(), own.repeat(1, k - 1)], 1)  # [L, k·L]
            hidden = self.run_first(shifted, hidden, self.rotary(positions, hidden.dtype), mask, seen)
            states.append(hidden)
            if self.fc_norm is not None:
                hidden = self.rms_norm(hidden, self.norm)
        return states

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """Fuses the states of the tapped layers: […, taps·E] → […, E]."""
        if self.fc_norm is not None:
            parts = features.unflatten(-1, self.fc_norm.shape)
            features = (F.rms_norm(parts, parts.shape[-1:], None, self.eps) * self.fc_norm).flatten(-2)
        return self.fc(features).float()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns logits […, Vd] of the states […, E]."""
        return F.linear(self.rms_norm(hidden, self.norm), self.head)

    def rotary(self, positions: torch.Tensor, dtype: torch.dtype) -> list[torch.Tensor]:
        """Returns tables [B, 1, L, D] of positions [B, L], as `apply_rotary` takes them."""
        tables = rotary_tables(positions.reshape(-1), self.inverse, self.scaling, dtype)
        return [table.view(len(positions), 1, -1, self.D) for table in tables]

    def run_first(self, ids, hidden, rotary, mask, seen: list | None = None) -> torch.Tensor:
        """Runs the first layer over ids [B, L] and hidden [B, L, E]; the other arguments are as in `run_layer`."""
        embedded = self.rms_norm(F.embedding(ids, self.embed), self.norm_embed)
        x = torch.cat([embedded, self.rms_norm(hidden, self.norm_hidden)], -1)
        return self.run_layer(self, x, hidden, rotary, mask, seen)

    def run_layer(self, layer, x, hidden, rotary, mask, seen: list | None = None) -> torch.Tensor:
        """Adds attention over ``x`` and the MLP of a layer to ``hidden``. ``seen``: pairs of the keys and values that
        earlier passes left, to which this one adds its own; ``mask`` [.., L, S] bool: which of them all it sees."""
        q, k, v = (part(x).unflatten(-1, (-1, self.D)).transpose(1, 2) for part in (layer.q, layer.k, layer.v))
        q, k = (apply_rotary(one, *rotary) for one in (q, k))
        if seen is not None:
            seen.append((k, v))
            k, v = (torch.cat(each, 2) for each in zip(*seen, strict=True))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        hidden = hidden + layer.o(out.transpose(1, 2).flatten(2))
        x = self.rms_norm(hidden, layer.norm_mid)
        return hidden + layer.down(F.silu(layer.gate(x)) * layer.up(x))

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)
