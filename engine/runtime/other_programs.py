"""Counts what other programs compute beside a measurement."""

import os
import time

import psutil


class OtherPrograms:
    """Counts what other programs compute from now on, to know whether they disturbed a measurement."""

    _SHORTEST = 0.3  # seconds; the kernel counts in hundredths of one
    _IDLE = ("idle", "iowait", "guest", "guest_nice")  # a guest's time is counted as its user's, too

    def __init__(self, threads: int):
        """Begins to watch the processor beside our passes of this many threads."""
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
