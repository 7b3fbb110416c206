"""Splits the blocks of GGUF's types into whole numbers, scales and offsets, without changing a weight.

A block of 32 weights, or a part of 32 of a block of 256, becomes one group: w = scale · n + offset. Types whose groups
are smaller (Q6_K), and tables of values (IQ…), are expanded to fp32 instead. The layouts are as in ggml-quants.c.

Dimension key: N rows, B blocks of a row, G groups of 32 of a row.
"""

from collections.abc import Callable

import numpy as np
import torch

from engine.models.tensors.grouped import GROUP, GroupedWeight


def _halves(bytes_: torch.Tensor) -> torch.Tensor:
    """Unpacks numbers of 4 bits: the low halves of all bytes, then the high ones. […, n] → […, 2·n]"""
    return torch.cat([bytes_ & 15, bytes_ >> 4], -1)


def _fp16(bytes_: torch.Tensor) -> torch.Tensor:
    """Reads […, 2] bytes as […] fp32."""
    return bytes_.contiguous().view(torch.float16)[..., 0].float()


def _fifth_bits(bytes_: torch.Tensor) -> torch.Tensor:
    """Returns the bits [N, B, 32] of four bytes [N, B, 4], the lowest of the first byte first, as 0 or 16."""
    shifts = torch.arange(8, dtype=torch.uint8)
    return (((bytes_[..., None] >> shifts) & 1) << 4).flatten(-2)


def _group(n: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor, bits: int) -> GroupedWeight:
    return GroupedWeight(n.reshape(len(n), -1), scale.flatten(1), offset.flatten(1), bits)


def _q4_0(b: torch.Tensor) -> GroupedWeight:
    d = _fp16(b[..., :2])
    return _group(_halves(b[..., 2:]), d, -8 * d, 4)


def _q4_1(b: torch.Tensor) -> GroupedWeight:
    return _group(_halves(b[..., 4:]), _fp16(b[..., :2]), _fp16(b[..., 2:4]), 4)


def _q5_0(b: torch.Tensor) -> GroupedWeight:
    d = _fp16(b[..., :2])
    return _group(_halves(b[..., 6:]) | _fifth_bits(b[..., 2:6]), d, -16 * d, 5)


def _q5_1(b: torch.Tensor) -> GroupedWeight:
    n = _halves(b[..., 8:]) | _fifth_bits(b[..., 4:8])
    return _group(n, _fp16(b[..., :2]), _fp16(b[..., 2:4]), 5)


def _q8_0(b: torch.Tensor) -> GroupedWeight:
    return GroupedWeight(b[..., 2:].reshape(len(b), -1).view(torch.int8), _fp16(b[..., :2]))


def _q4_k(b: torch.Tensor) -> GroupedWeight:
    return _group(_pairs(b[..., 16:]), *_scales_and_offsets(b), 4)


def _q5_k(b: torch.Tensor) -> GroupedWeight:
    shifts = torch.arange(8, dtype=torch.uint8)[:, None]
    fifth = ((b[..., None, 16:48] >> shifts) & 1) << 4  # [N, B, 8, 32]
    return _group(_pairs(b[..., 48:]) | fifth, *_scales_and_offsets(b), 5)


def _pairs(bytes_: torch.Tensor) -> torch.Tensor:
    """Unpacks the numbers of 4 bits of a block of 256: 32 bytes hold a group in their low halves and the next in their
    high ones. [N, B, 128] → [N, B, 8, 32]"""
    parts = bytes_.unflatten(-1, (4, GROUP))
    return torch.stack([parts & 15, parts >> 4], -2).flatten(-3, -2)


def _scales_and_offsets(b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns scale and offset of the eight groups of each block of Q4_K and Q5_K, [N, B, 8]. A block stores two fp16,
    and six bits for each group's scale and offset, packed into twelve bytes."""
    d, least = _fp16(b[..., :2]), _fp16(b[..., 2:4])
    first, second, third = b[..., 4:8], b[..., 8:12], b[..., 12:16]
    scale = torch.cat([first & 63, (third & 15) | ((first >> 6) << 4)], -1)
    offset = torch.cat([second & 63, (third >> 4) | ((second >> 6) << 4)], -1)
    return d[..., None] * scale.float(), -least[..., None] * offset.float()


def _q6_k(b: torch.Tensor) -> torch.Tensor:
    """Expands [N, B, 210] bytes to [N, K] fp32: sixteen scales of 8 bits for each 256 weights."""
    low, high = b[..., :128].unflatten(-1, (2, 2, GROUP)), b[..., 128:192].unflatten(-1, (2, 1, GROUP))
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8)[:, None]
    n = torch.cat([low & 15, low >> 4], -2) | (((high >> shifts) & 3) << 4)  # [N, B, 2, 4, 32]
    scales = _fp16(b[..., 208:])[..., None] * b[..., 192:208].view(torch.int8).float()  # [N, B, 16]
    values = (n.view(torch.int8) - 32).view(*n.shape[:2], 16, 16).float()
    return values.mul_(scales[..., None]).reshape(len(b), -1)


# By type: the bytes of a block, and what splits blocks [N, B, bytes].
SPLIT: dict[str, tuple[int, Callable[[torch.Tensor], GroupedWeight]]] = {
    "Q4_0": (18, _q4_0), "Q4_1": (20, _q4_1), "Q5_0": (22, _q5_0), "Q5_1": (24, _q5_1), "Q8_0": (34, _q8_0),
    "Q4_K": (144, _q4_k), "Q5_K": (176, _q5_k),
}  # fmt: skip
PLAIN = {"F32": np.float32, "F16": np.float16}


def dense(kind: str, rows: np.ndarray) -> torch.Tensor:
    """Expands rows [N, bytes] of any type to fp32 [N, K]."""
    if kind in PLAIN:
        return torch.from_numpy(rows.view(PLAIN[kind]).astype(np.float32))
    if kind == "BF16":
        return torch.from_numpy(rows).view(torch.bfloat16).float()
    blocks = torch.from_numpy(rows)
    if kind in SPLIT:
        size, split = SPLIT[kind]
        return split(blocks.unflatten(-1, (-1, size))).dense()
    if kind == "Q6_K":
        return _q6_k(blocks.unflatten(-1, (-1, 210)))
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    return torch.from_numpy(dequantize(rows, GGMLQuantizationType[kind]).astype(np.float32, copy=False))
