"""Seconds between marks on the device's own time line: perf_counter on a CPU, CUDA events on a GPU."""

import time

import torch


class Clock:
    """mark() … mark(), then laps() once the device has passed the last mark."""

    def __init__(self, device: str):
        self._cuda = torch.device(device).type == "cuda"
        self._marks: list = []

    def mark(self) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def laps(self) -> list[float]:
        """Seconds between neighbouring marks."""
        pairs = zip(self._marks, self._marks[1:], strict=False)
        return [a.elapsed_time(b) / 1e3 if self._cuda else b - a for a, b in pairs]
