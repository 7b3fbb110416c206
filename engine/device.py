"""Moves small host values to a device, times work on it, reads its memory use and the load of other programs, and
names the processor. `engine.runtime.device_choice` chooses the device and the precision."""

import ctypes
import os
import platform
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
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


class OtherPrograms:
    """Counts what other programs compute from now on, to know whether they disturbed a measurement."""

    _SHORTEST = 0.3  # seconds; the kernel counts in hundredths of one
    _IDLE = ("idle", "iowait", "guest", "guest_nice")  # a guest's time is counted as its user's, too

    def __init__(self, threads: int):
        """``threads`` of our passes."""
        self._threads, self._start = threads, self._counts()

    @property
    def share(self) -> float | None:
        """The share of the cores of ``threads`` threads that was not there for them; 0 while other programs have cores
        of their own. None after too short a time, and where the system does not tell."""
        start, end = self._start, self._counts()
        if not start or not end or end[0] - start[0] < self._SHORTEST:
            return None
        seconds, busy, own = (after - before for before, after in zip(start[:3], end[:3], strict=True))
        others = max(0.0, (busy - own) / seconds)  # cores
        return round(min(1.0, max(0.0, others - (end[3] - self._threads)) / self._threads), 3)

    def _counts(self) -> tuple[float, float, float, int] | None:
        """Returns the seconds so far of all programs, of this one, and the number of cores that this one may use."""
        try:
            usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
            cores = [core for number, core in enumerate(psutil.cpu_times(percpu=True)) if number in usable]
        except (OSError, psutil.Error):
            return None
        busy = sum(sum(core) - sum(getattr(core, name, 0.0) for name in self._IDLE) for core in cores)
        return (time.perf_counter(), busy, time.process_time(), len(cores)) if cores else None


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
