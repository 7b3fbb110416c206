"""Runs a decoder layer of an EAGLE head in torch."""

import torch
import torch.nn.functional as F

from engine.models.decoder.attention import CachedAttention
from engine.models.tensors.linear import fuse
from engine.models.tensors.safetensors_reader import TensorReader


class HeadLayer:
    """A decoder layer whose input is normed outside. ``width``: numbers of its attention's input."""

    def __init__(self, model, weights: TensorReader, at: str, width: int):
        heads, shared = model.H * model.D, model.K * model.D

        self.H, self.K, self.D, self.inner, self.eps = model.H, model.K, model.D, model.inner, model.eps
        self.norm_mid = weights(at + "post_attention_layernorm.weight", (model.width,))
        self.qkv = fuse(weights, at, {"self_attn.q": heads, "self_attn.k": shared, "self_attn.v": shared}, width)
        names = [f"{at}self_attn.{side}_norm.weight" for side in "qk"]
        has_norms = any(name in weights for name in names)
        self.norms = [weights(name, (model.D,)) for name in names] if has_norms else None
        self.out = fuse(weights, at, {"self_attn.o": model.width}, heads)
        self.gate_up = fuse(weights, at, {"mlp.gate": model.inner, "mlp.up": model.inner}, model.width)
        self.down = fuse(weights, at, {"mlp.down": model.width}, model.inner)

    def __call__(self, x: torch.Tensor, residual: torch.Tensor, attend: CachedAttention, layer: int) -> torch.Tensor:
        """Adds attention over ``x`` and the MLP to ``residual`` [W, E]; ``layer``: its number in the cache."""
        qk, v = self.qkv(x).view(len(x), self.H + 2 * self.K, self.D).split([self.H + self.K, self.K], 1)
        if self.norms:
            parts = zip(qk.split([self.H, self.K], 1), self.norms, strict=True)
            qk = torch.cat([self._rms_norm(part, weight) for part, weight in parts], 1)
        hidden = residual + self.out(attend(qk, v, layer))
        gate_up = self.gate_up(self._rms_norm(hidden, self.norm_mid))
        return hidden + self.down(F.silu(gate_up[:, : self.inner]) * gate_up[:, self.inner :])

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.eps)
