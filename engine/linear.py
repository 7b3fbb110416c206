"""Matrix products that stay cheap from one row to eight.

On a CPU a plain fp32 product doubles in cost from one row to two, which is what makes verification look expensive
there. oneDNN's prepacked weights do not: six rows cost about 1.35 of one. Packing is probed, never assumed.
"""

from functools import cache

import torch
import torch.nn.functional as F

_ROWS_HINT = 8  # the row count that oneDNN chooses its weight layout for


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


@cache
def packing_works() -> bool:
    """Whether this build and processor pack: one small product, compared with the plain one."""
    try:
        weight, x = torch.randn(48, 32), torch.randn(3, 32)
        return bool(torch.allclose(PackedLinear(weight)(x), F.linear(x, weight), atol=1e-4))
    except (AttributeError, RuntimeError):
        return False


def linear_for(dtype: torch.dtype, device: str, packed: bool | None = None) -> type:
    """The class to build linears with; ``packed`` None means wherever it works."""
    can = dtype == torch.float32 and torch.device(device).type == "cpu" and packing_works()
    return PackedLinear if can and packed is not False else PlainLinear
