"""Estimates how much longer an experiment takes."""

import time
from bisect import bisect_right
from collections.abc import Callable

from app.lab.work_units import Step

_HIGHER = 1.25  # an estimate that grew by less than this is not worth a word


class Eta:
    """Estimates the time left from this very job: from how long the newer half of its work took. The estimate never
    grows without a word."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._times: list[float] = []
        self._left: list[float] = []  # the work that was left at each of them
        self._least = float("inf")  # seconds, of all estimates so far

    def add(self, step: Step) -> None:
        if step.left is not None and (not self._left or step.left != self._left[-1]):
            self._times.append(self._clock())
            self._left.append(step.left)

    def words(self) -> str:
        """Says how long it will take; empty until some work has been seen."""
        seconds = self._seconds()
        if seconds is None:
            return ""
        seconds = _round_off(seconds)
        self._least = min(self._least, seconds)
        is_longer = seconds >= _HIGHER * self._least
        if not is_longer:
            seconds = self._least
        how_long = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        return f", about {how_long} left{', longer than it seemed' if is_longer else ''}"

    def _seconds(self) -> float | None:
        if len(self._times) < 2:
            return None
        last = self._times[-1]
        middle = bisect_right(self._times, (self._times[0] + last) / 2) - 1
        done = self._left[middle] - self._left[-1]
        if done <= 0:
            return None
        expected = (last - self._times[middle]) / done * self._left[-1]
        # Half of the estimate stays when a part takes longer than it should.
        return max(expected - (self._clock() - last), expected / 2)


def _round_off(seconds: float) -> float:
    """Rounds off the digits that such an estimate cannot have."""
    step = 60 if seconds >= 90 else 5 if seconds >= 20 else 1
    return max(1, round(seconds / step) * step)
