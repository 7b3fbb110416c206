"""Multiplies by weights of 4 bits, in groups of 32 that share a scale: a step then reads a sixth of the bytes of fp32.

torch's product takes activations in bf16 and sums in fp32. An 8-bit weight, n = 16·high + low, is two 4-bit ones.
Rounded weights, scales and activations make it another model than the unrounded one, with its own baseline.

Dimension key: W rows, N outputs, K inputs, G groups = K / 32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from engine.errors import Unavailable

GROUP = 32
_ROWS = 16  # the kernel computes outputs in blocks of so many
_PACKED_ROWS = 2048  # weights packed at a time; a multiple of the kernel's blocks
_REFINED = 64  # logits that are computed again


@dataclass(frozen=True, slots=True)
class GroupedWeight:
    """w = scale · n + offset. n [N, K]: uint8 in 0 … 15, or int8 in −128 … 127 where ``offset`` is None; scale, offset
    [N, G] fp32."""

    n: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor | None = None

    def dense(self) -> torch.Tensor:
        """Returns w [N, K] in fp32."""
        w = self.n.view(*self.scale.shape, GROUP).float().mul_(self.scale[..., None])
        if self.offset is not None:
            w += self.offset[..., None]
        return w.view(self.n.shape)

    def rows(self, ids: torch.Tensor) -> "GroupedWeight":
        return GroupedWeight(self.n[ids], self.scale[ids], None if self.offset is None else self.offset[ids])

    @staticmethod
    def cat(weights: Sequence["GroupedWeight"]) -> "GroupedWeight":
        """Stacks weights of one kind along N."""
        offset = None if weights[0].offset is None else torch.cat([w.offset for w in weights])
        return GroupedWeight(torch.cat([w.n for w in weights]), torch.cat([w.scale for w in weights]), offset)

    @staticmethod
    def rounded(weight: torch.Tensor, bits: int = 4) -> "GroupedWeight":
        """Rounds w [N, K] to 4 bits between each group's extremes, or to 8 bits around 0. Raises Unavailable where 32
        does not divide K."""
        N, K = weight.shape
        if K % GROUP:
            raise Unavailable(f"int4 rounds groups of {GROUP} weights, but a layer here has {K} inputs; choose fp32.")
        groups = weight.float().view(N, K // GROUP, GROUP)
        tiny = torch.finfo(torch.float32).tiny
        if bits == 8:
            scale = (groups.abs().amax(-1) / 127).clamp_min(tiny)
            return GroupedWeight((groups / scale[..., None]).round().to(torch.int8).view(N, K), scale)
        low, high = groups.amin(-1), groups.amax(-1)
        scale = ((high - low) / 15).clamp_min(tiny)
        n = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15)
        return GroupedWeight(n.to(torch.uint8).view(N, K), scale, low)


def grouped(weights, shapes: dict[str, tuple[int, int]], bits: int) -> GroupedWeight:
    """Reads and stacks the tensors of these names: in the blocks they are stored in, else rounded to ``bits``."""
    stored = [weights.blocks(name, shape) for name, shape in shapes.items()] if hasattr(weights, "blocks") else [None]
    if all(stored) and len({w.n.dtype for w in stored}) == 1:
        return GroupedWeight.cat(stored)
    return GroupedWeight.rounded(torch.cat([weights(name, shape) for name, shape in shapes.items()]), bits)


class Int4Linear:
    """x [W, K] → [W, N] in x's type."""

    def __init__(self, weight: GroupedWeight, bias: torch.Tensor | None = None):
        if len(weight.n) % _ROWS:
            raise Unavailable(
                f"int4 multiplies by blocks of {_ROWS} rows, but a layer here has {len(weight.n)}; choose fp32."
            )
        self.planes, self.bias = _planes(weight), bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rounded = x.to(torch.bfloat16)
        (first, scales), *rest = self.planes
        out = torch.ops.aten._weight_int4pack_mm_for_cpu(rounded, first, GROUP, scales).to(x.dtype)
        for packed, scales in rest:
            out += torch.ops.aten._weight_int4pack_mm_for_cpu(rounded, packed, GROUP, scales)
        return out if self.bias is None else out + self.bias


class Int4Head(Int4Linear):
    """The output layer. The product's result is a bf16, which steps by 0.125 where logits are largest, so the largest
    ones are computed again in fp32."""

    def __init__(self, weight: GroupedWeight):
        super().__init__(weight)
        self.weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        logits = super().__call__(x)
        top = logits.topk(min(_REFINED, logits.shape[1])).indices  # [W, T]
        rows = self.weight.rows(top.view(-1)).dense().view(*top.shape, -1)  # [W, T, K]
        return logits.scatter_(1, top, (rows @ x[..., None]).squeeze(-1))


def _planes(weight: GroupedWeight) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Packs a weight as torch's product reads it: w = scale · (n − 8) + zero, one or two of them. The layout depends on
    the processor, so it is made at every load."""
    n, scale, nothing = weight.n, weight.scale, torch.zeros_like(weight.scale)
    if weight.offset is not None:
        return [(_packed(n, lambda n: n), _pairs(scale, weight.offset + 8 * scale))]
    high, low = _packed(n, lambda n: (n >> 4) + 8), _packed(n, lambda n: n & 15)
    return [(high, _pairs(16 * scale, nothing)), (low, _pairs(scale, 8 * scale))]


def _packed(n: torch.Tensor, nibble: Callable) -> torch.Tensor:
    """Some rows at a time, because the packing takes 32 bits for every weight."""
    pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
    return torch.cat([pack(nibble(rows.int()), 1) for rows in n.split(_PACKED_ROWS)])


def _pairs(scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """[N, G] twice → [G, N, 2] in bf16."""
    return torch.stack([scale, zero], -1).transpose(0, 1).contiguous().to(torch.bfloat16)


@cache
def int4_works() -> bool:
    """Whether this build and processor multiply in 4 bits: one small product, compared with the plain one."""
    draw = torch.Generator().manual_seed(0)
    weight, x = torch.randn(32, 64, generator=draw), torch.randn(3, 64, generator=draw)
    try:
        grouped_weight = GroupedWeight.rounded(weight)
        return bool(torch.allclose(Int4Linear(grouped_weight)(x), x @ grouped_weight.dense().T, atol=0.5))
    except (AttributeError, RuntimeError):
        return False
