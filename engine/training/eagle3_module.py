"""Defines an EAGLE-3 head as a module to train: token embedding and target features in, its own words out. Its loss is
that of every student, in distil.py.

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

from engine.models.attention import apply_rotary, rotary_frequencies, rotary_tables

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
FURTHER = TENSORS | {"norm_in": TENSORS["norm_embed"]}  # of a plain layer after it


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
        hidden, keys, values, states = self.fuse(features), [], [], []
        for k in range(1, steps + 1):
            shifted = F.pad(ids[:, k:], (0, k))  # token t + k at position t
            hidden = self._layer(shifted, hidden, k, keys, values)
            states.append(hidden)
            if self.fc_norm is not None:
                hidden = F.rms_norm(hidden, self.norm.shape, self.norm, self.eps)
        return states

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """[…, taps·E] → [..., E]"""
        if self.fc_norm is not None:
            parts = features.unflatten(-1, self.fc_norm.shape)
            features = (F.rms_norm(parts, parts.shape[-1:], None, self.eps) * self.fc_norm).flatten(-2)
        return self.fc(features).float()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns logits […, Vd] of the states […, E]."""
        return F.linear(F.rms_norm(hidden, self.norm.shape, self.norm, self.eps), self.head)

    def _layer(self, ids, hidden, step: int, keys: list, values: list):
        E = hidden.shape[-1]
        embedded = F.rms_norm(F.embedding(ids, self.embed), (E,), self.norm_embed, self.eps)
        x = torch.cat([embedded, F.rms_norm(hidden, (E,), self.norm_hidden, self.eps)], -1)
        hidden = hidden + self.o(self._attend(x, step, keys, values))
        x = F.rms_norm(hidden, (E,), self.norm_mid, self.eps)
        return hidden + self.down(F.silu(self.gate(x)) * self.up(x))

    def _attend(self, x, step: int, keys: list, values: list):
        B, L, _ = x.shape
        places = torch.arange(L, device=x.device) + step - 1
        rotary = [table[:, 0] for table in rotary_tables(places, self.inverse, self.scaling, x.dtype)]  # [L, D] each
        q, k, v = (part(x).view(B, L, -1, self.D).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = (apply_rotary(one, *rotary) for one in (q, k))
        keys.append(k)
        values.append(v)
        if step == 1:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return out.transpose(1, 2).reshape(B, L, -1)
        G, scale = self.H // self.K, self.D**-0.5
        k, v = ([t.repeat_interleave(G, 1) for t in some] for some in (keys, values))
        causal = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()
        scores = (q @ k[0].transpose(2, 3) * scale).masked_fill(~causal, float("-inf"))
        branch = [(q * own).sum(-1, keepdim=True) * scale for own in k[1:]]
        weights = torch.cat([scores, *branch], -1).softmax(-1)
        out = weights[..., :L] @ v[0]
        for i, own in enumerate(v[1:]):
            out = out + weights[..., L + i : L + i + 1] * own
        return out.transpose(1, 2).reshape(B, L, -1)
