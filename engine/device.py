"""Small host values onto a device without waiting for it.

A plain copy from pageable memory makes the host wait for the whole CUDA stream; from pinned memory it does not. The
loop allows itself one wait a round, and that one is for the results.
"""

import torch


def to_device(values, device: str, dtype: torch.dtype = torch.long) -> torch.Tensor:
    """A list, array or CPU tensor as a tensor on ``device``."""
    tensor = torch.as_tensor(values, dtype=dtype)
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
