"""Holds weights of 4 or 8 bits in groups of 32 that share a scale, and rounds others to them.

Dimension key: N outputs, K inputs, G groups = K / 32.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from engine.errors import Unavailable

GROUP = 32
_TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True, slots=True)
class GroupedWeight:
    """w = scale · n + offset. n [N, K]: uint8 in 0 … 15, or int8 in −128 … 127 where ``offset`` is None; scale, offset
    [N, G] fp32."""

    n: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor | None = None

    @property
    def bits(self) -> int:
        return 8 if self.offset is None else 4

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
    def rounded(weight: torch.Tensor, bits: int) -> "GroupedWeight":
        """Rounds w [N, K] to 4 bits between each group's extremes, or to 8 bits around 0. Raises Unavailable where 32
        does not divide K."""
        N, K = weight.shape
        check_groups(K, bits)
        groups = weight.float().view(N, K // GROUP, GROUP)
        if bits == 8:
            scale = (groups.abs().amax(-1) / 127).clamp_min(_TINY)
            return GroupedWeight((groups / scale[..., None]).round().to(torch.int8).view(N, K), scale)
        low, high = groups.amin(-1), groups.amax(-1)
        scale = ((high - low) / 15).clamp_min(_TINY)
        n = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15)
        return GroupedWeight(n.to(torch.uint8).view(N, K), scale, low)


def check_groups(inputs: int, bits: int) -> None:
    """Raises Unavailable where groups do not fit a product of so many inputs."""
    if inputs % GROUP:
        raise Unavailable(
            f"int{bits} rounds groups of {GROUP} weights, but a layer here has {inputs} inputs; choose fp32."
        )


def grouped(weights, shapes: dict[str, tuple[int, int]], bits: int) -> GroupedWeight:
    """Reads and stacks the tensors of these names: in the groups they are stored in, else rounded to ``bits``."""
    stored = [weights.blocks(name, shape) for name, shape in shapes.items()] if hasattr(weights, "blocks") else [None]
    if all(stored) and len({w.n.dtype for w in stored}) == 1:
        return GroupedWeight.cat(stored)
    return GroupedWeight.rounded(torch.cat([weights(name, shape) for name, shape in shapes.items()]), bits)


class RoundedReader:
    """Reads a checkpoint's matrices with their rounded values, dense: for a processor that multiplies them in fp32."""

    def __init__(self, reader, bits: int):
        self._reader, self._bits = reader, bits
        self.folder = reader.folder

    @property
    def names(self) -> Collection[str]:
        return self._reader.names

    @property
    def read(self) -> set[str]:
        return self._reader.read

    def __contains__(self, name: str) -> bool:
        return name in self._reader

    def __call__(self, name: str, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        if shape is None or len(shape) < 2:
            return self._reader(name, shape)
        check_groups(shape[1], self._bits)
        is_vocabulary = name in ("model.embed_tokens.weight", "lm_head.weight")
        return grouped(self._reader, {name: shape}, 8 if is_vocabulary else self._bits).dense()
