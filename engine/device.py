"""Moves small host values to a device, times work on it, reads its memory use, and names the processor.

`engine.runtime.device_choice` chooses the device and the precision.
"""

import ctypes
import os
import platform
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch


def to_device(values: Any, device: str | torch.device, dtype: torch.dtype = torch.long) -> torch.Tensor:
    """Returns a list, array or CPU tensor as a tensor on ``device``; on CUDA without waiting for the copy."""
    tensor = torch.as_tensor(values, dtype=dtype)
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def to_host(tensor: torch.Tensor) -> np.ndarray:
    """Copies a tensor to the host, which waits for the device: once a round, and for each level of an EAGLE tree."""
    return tensor.cpu().numpy()


def now(device: str) -> float:
    """Returns the time in seconds once the device has done all its work."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class DeviceTimer:
    """Times stretches of device work by name; reading them needs a synchronisation before."""

    def __init__(self, device: str):
        self._device, self._cuda = device, torch.device(device).type == "cuda"
        self._marks: list[tuple[str | None, Any]] = []

    def start(self, name: str | None) -> None:
        """Ends the stretch before and begins one of this name."""
        if self._cuda:
            at = torch.cuda.Event(enable_timing=True)
            at.record(torch.cuda.current_stream(self._device))
        else:
            at = time.perf_counter()
        self._marks.append((name, at))

    def stop(self) -> None:
        """Ends the stretch before; the time until the next start belongs to none."""
        self.start(None)

    def seconds(self) -> dict[str, float]:
        """Returns the length of each stretch that has ended."""
        pairs = zip(self._marks, self._marks[1:], strict=False)
        return {name: a.elapsed_time(b) / 1e3 if self._cuda else b - a for (name, a), (_, b) in pairs if name}


def reset_peak(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: str) -> int | None:
    """Returns the peak that CUDA allocated since `reset_peak`; elsewhere the process's peak, and None on Windows."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def return_memory() -> None:
    """Gives freed memory back to the system where glibc would keep it: half of what a load took."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def out_of_memory(error: BaseException) -> bool:
    """Returns whether an allocation failed. CUDA has its own exception, the CPU only a message."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and ("allocate memory" in message or "out of memory" in message)


def processor() -> str:
    """Names the processor, with its number of cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        name = platform.processor() or platform.machine()
    cores = os.cpu_count()
    return f"{name}, {'one core' if cores == 1 else f'{cores} cores'}"
