"""Multiplies by a weight as torch does: on CUDA and MPS, and on a CPU where ONNX Runtime cannot run."""

from typing import Any

import torch
import torch.nn.functional as F


class Linear:
    """x [W, in] → [W, out]."""

    def __init__(self, weight: Any, bias: torch.Tensor | None = None):
        self.weight, self.bias = weight.contiguous(), bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


def fuse(weights, at: str, sizes: dict[str, int], width: int) -> Linear:
    """Reads products of one input as one, with their biases. ``sizes``: rows by the name between ``at`` and `_proj`."""
    parts = [(f"{at}{name}_proj", rows) for name, rows in sizes.items()]
    weight = torch.cat([weights(f"{name}.weight", (rows, width)) for name, rows in parts])
    if not any(f"{name}.bias" in weights for name, _ in parts):
        return Linear(weight)
    return Linear(weight, torch.cat([weights(f"{name}.bias", (rows,)) for name, rows in parts]))
