"""Estimates how much longer an experiment takes."""

import time

from app.lab.work_units import WARMING_UP, Step


class Eta:
    """Estimates the time left from the parts so far, without warm-up."""

    def __init__(self):
        self._first: tuple[float, float] | None = None
        self._last = 0.0, 0.0

    def add(self, step: Step) -> None:
        if step.result is None and step.doing != WARMING_UP:
            self._last = step.done, time.monotonic()
            self._first = self._first or self._last

    def words(self, step: Step) -> str:
        """Says how long it will take; empty until two parts have been seen."""
        if self._first is None or self._last[0] <= self._first[0]:
            return ""
        each = (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
        seconds = each * (step.of - step.done)
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {max(1, seconds):.0f} s left"
