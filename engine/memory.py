"""Bytes in use and to be had, as far as the platform tells."""

import sys

import torch


def reset_peak(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: str) -> int | None:
    """CUDA: peak allocated since `reset_peak`. Elsewhere the process's peak; None where nothing tells (Windows)."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: CUDA has an exception for it, the CPU allocator only words."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and ("allocate memory" in said or "out of memory" in said)
