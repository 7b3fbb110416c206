"""Holds weights of 4, 5 or 8 bits in groups of 32 that share a scale, and rounds others to them.

Dimension key: N outputs, K inputs, G groups = K / 32.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch

from engine.errors import Unavailable

GROUP = 32
_TINY = torch.finfo(torch.float32).tiny
_SCALE_FLOOR = 1e-12
VOCABULARY = ("model.embed_tokens.weight", "lm_head.weight")


_PART = 1 << 23  # weights of a large matrix that are converted at a time


def row_ranges(rows: int, width: int) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of the parts in which a matrix [rows, width] is converted."""
    step = max(1, _PART // width)
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


@dataclass(frozen=True, slots=True)
class GroupedWeight:
    """w = scale · n + offset. n [N, K]: int8 in −128 … 127 where ``offset`` is None, else uint8 in 0 … 2^bits − 1;
    scale, offset [N, G] fp32."""

    n: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor | None = None
    bits: int = 8

    def dense(self) -> torch.Tensor:
        """Returns w [N, K] in fp32."""
        w = self.n.view(*self.scale.shape, GROUP).float().mul_(self.scale[..., None])
        if self.offset is not None:
            w += self.offset[..., None]
        return w.view(self.n.shape)

    def rows(self, ids: torch.Tensor | slice) -> "GroupedWeight":
        return self.map(lambda part: part[ids])

    def dense_rows(self, ids: torch.Tensor | slice) -> torch.Tensor:
        """Returns rows in fp32 [len(ids), K]."""
        return self.rows(ids).dense()

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "GroupedWeight":
        """Returns the weight with rows that were chosen or put in another order."""
        offset = None if self.offset is None else change(self.offset)
        return GroupedWeight(change(self.n), change(self.scale), offset, self.bits)

    @staticmethod
    def cat(weights: Sequence["GroupedWeight"]) -> "GroupedWeight":
        """Stacks weights along N: as they are where all are of one kind, else in 8 bits with an offset."""
        if len(weights) == 1:
            return weights[0]
        if len({(w.bits, w.offset is None) for w in weights}) > 1:
            weights = [w.in_eight_bits() for w in weights]
        offsets = [w.offset for w in weights if w.offset is not None]
        offset = torch.cat(offsets) if offsets else None
        n, scale = torch.cat([w.n for w in weights]), torch.cat([w.scale for w in weights])
        return GroupedWeight(n, scale, offset, weights[0].bits)

    def in_eight_bits(self) -> "GroupedWeight":
        """Returns the weight with n in 0 … 255 and offsets that are −scale times a whole number from 0 to 255, the zero
        point. Of fewer bits n becomes a multiple of 16 or 8, and the offset moves by at most half of its new, smaller
        step. A group whose zero point would lie outside is rounded again, between its extremes and 0."""
        if self.offset is None:
            return GroupedWeight((self.n.view(torch.uint8) ^ 128), self.scale, -128 * self.scale)
        finer = 1 << (8 - self.bits)
        scale = (self.scale / finer).abs().clamp_min(_SCALE_FLOOR).copysign(self.scale)
        zero, n = (-self.offset / scale).round(), (self.n * finer).view(*self.scale.shape, GROUP)
        outside = (zero < 0) | (zero > 255)
        if outside.any():
            steps = self.n.view(n.shape)[outside].float()
            groups = steps * self.scale[outside][:, None] + self.offset[outside][:, None]
            low, high = groups.amin(-1).clamp_max(0), groups.amax(-1).clamp_min(0)
            step = ((high - low) / 255).clamp_min(_SCALE_FLOOR)
            zeros = (-low / step).round()
            n[outside] = ((groups / step[:, None]).round() + zeros[:, None]).clamp(0, 255).to(torch.uint8)
            scale[outside], zero[outside] = step, zeros
        return GroupedWeight(n.view(self.n.shape), scale, -scale * zero)

    @staticmethod
    def round(weight: torch.Tensor, bits: int) -> "GroupedWeight":
        """Rounds w [N, K] to 4 bits between each group's extremes, or to 8 bits around 0. 32 must divide K."""
        check_groups(weight.shape[1], bits)
        parts = [_round(weight[start:end].float(), bits) for start, end in row_ranges(*weight.shape)]
        return GroupedWeight.cat(parts)


def _round(weight: torch.Tensor, bits: int) -> GroupedWeight:
    N, K = weight.shape
    groups = weight.view(N, K // GROUP, GROUP)
    if bits == 8:
        scale = (groups.abs().amax(-1) / 127).clamp_min(_TINY)
        return GroupedWeight((groups / scale[..., None]).round().to(torch.int8).view(N, K), scale)
    low, high = groups.amin(-1), groups.amax(-1)
    scale = ((high - low) / 15).clamp_min(_TINY)
    n = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15)
    return GroupedWeight(n.to(torch.uint8).view(N, K), scale, low, 4)


def check_groups(inputs: int, bits: int) -> None:
    """Raises Unavailable if ``inputs`` cannot be divided into groups."""
    if inputs % GROUP:
        raise Unavailable(
            f"int{bits} rounds groups of {GROUP} weights, but a layer here has {inputs} inputs; choose fp32."
        )


def read_grouped(weights, shapes: dict[str, tuple[int, int]], bits: int) -> GroupedWeight:
    """Reads and stacks the tensors of these names: in the groups they are stored in, else rounded to ``bits``."""
    stored = getattr(weights, "blocks", lambda name, shape: None)
    parts = [stored(name, shape) or GroupedWeight.round(weights(name, shape), bits) for name, shape in shapes.items()]
    for name, part in zip(shapes, parts, strict=True):
        if name not in VOCABULARY:  # rows that are never read do no harm, and all others show in the logits
            check_finite(f"{name} in {weights.folder}", part.scale, part.offset)
    return GroupedWeight.cat(parts)


def check_finite(where: str, *numbers: torch.Tensor | None) -> None:
    """Raises Unavailable, naming ``where`` they are, if one of these numbers is not finite. A product whose inputs are
    rounded to whole numbers would turn them into finite ones, so the text would be wrong and nothing would show it."""
    for each in numbers:
        if each is None or each.sum().isfinite() or each.isfinite().all():  # the sum usually suffices, 60 times faster
            continue
        raise Unavailable(f"{where} holds numbers that are not finite (NaN or infinity); fetch the model again.")


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
        bits = 8 if name in VOCABULARY else self._bits
        return read_grouped(self._reader, {name: (shape[0], shape[1])}, bits).dense()
