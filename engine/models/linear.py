"""Multiplies matrices at nearly the same cost for one to eight rows.

On a CPU a plain fp32 product of two rows costs twice as much as one of one row, so verification would be expensive.
With oneDNN's prepacked weights six rows cost about 1.35 of one. Packing is probed, never assumed.

A draft may be rounded, a target may not: q is the distribution its tokens were drawn from, rounded or not, so the
output stays exact and only α can fall. An 8-bit weight has a quarter of the bytes that a small step has to read.
"""

import warnings
from functools import cache

import torch
import torch.nn.functional as F

from engine.models.int4 import Int4Linear

_ROWS_HINT = 8  # the row count that oneDNN chooses its weight layout for
_LARGEST = 127  # of an 8-bit weight


class PlainLinear:
    """x [W, in] → [W, out]."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None):
        self.weight, self.bias = weight.contiguous(), bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class PackedLinear:
    """The same product over oneDNN's own weight layout; fp32 on CPU only."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None):
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS_HINT)
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


class QuantisedLinear:
    """The product with 8-bit weights, one scale a row of them, and inputs rounded to 7 bits; fp32 on CPU only.

    One scale serves all inputs of a call, so an outlier in one token degrades the others. Use it only for drafts whose
    α was measured with it.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None):
        scales = (weight.abs().amax(1).double() / _LARGEST).clamp_min(torch.finfo(torch.float32).tiny)
        zeros = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():  # torch has deprecated this type, so its use is probed like the packing
            warnings.simplefilter("ignore")
            rounded = torch.quantize_per_channel(weight.float(), scales, zeros, 0, torch.qint8)
        self.weight = torch.ops.quantized.linear_prepack(rounded, bias)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        # Without the reduced range two 8-bit products may overflow the 16 bits they are summed in on AVX2.
        return torch.ops.quantized.linear_dynamic(x, self.weight, reduce_range=True)


@cache
def packing_works() -> bool:
    """Whether this build and processor pack: one small product, compared with the plain one."""
    return _agrees(PackedLinear, 1e-4)


@cache
def quantising_works() -> bool:
    """Whether this build and processor multiply in 8 bits: one small product, compared with the plain one."""
    return _agrees(QuantisedLinear, 0.5)  # of sums of 32 products of unit variance


def _agrees(linear: type, tolerance: float) -> bool:
    try:
        draw = torch.Generator().manual_seed(0)  # the same answer every time
        weight, x = (torch.randn(rows, 32, generator=draw) for rows in (48, 3))
        return bool(torch.allclose(linear(weight)(x), F.linear(x, weight), atol=tolerance))
    except (AttributeError, RuntimeError):
        return False


def linear_for(dtype: torch.dtype, device: str, packed: bool | None = None, bits: int | None = None) -> type:
    """The class to build linears with; ``packed`` None means wherever it works. ``bits`` 8 means 8-bit products
    wherever they work, for drafts only; 4 means `Int4Linear`, whether it is fast here or not."""
    if bits == 4:
        return Int4Linear
    can = dtype == torch.float32 and torch.device(device).type == "cpu" and packed is not False
    if can and bits == 8 and quantising_works():
        return QuantisedLinear
    return PackedLinear if can and packing_works() else PlainLinear
