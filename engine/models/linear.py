"""A product as torch computes it: on CUDA and MPS, and on a CPU where ONNX Runtime cannot run."""

import torch
import torch.nn.functional as F


class Linear:
    """x [W, in] → [W, out]."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None):
        self.weight, self.bias = weight.contiguous(), bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)
