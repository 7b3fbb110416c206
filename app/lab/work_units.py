"""Measures an experiment point after point, each a unit of work, so that other visitors get a turn in between, and
estimates how much longer that takes."""

import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from app.jobs.runs import Work
from app.jobs.updates import Report

MOST_FILES = 200
WARMING_UP = "warming up"
Again = Literal["all", "noise"]
_HIGHER = 1.25  # an estimate that grew by less than this is not worth a word


@dataclass(frozen=True)
class Step:
    """``done`` of ``of`` parts; ``doing``: the one under way, "" between two points. ``result``: everything measured so
    far, None: as before; ``left``: the work that is left, as `Points.work_left`, None where that is not known yet."""

    done: float
    of: int
    doing: str = ""
    result: Any = None
    left: float | None = None

    @property
    def is_complete(self) -> bool:
        return self.done >= self.of


class Points(Protocol):
    """The points of an experiment on one engine, those measured before among them."""

    def missing(self) -> Sequence: ...

    def warm(self, cancelled: Callable[[], bool]) -> None: ...

    def measure(self, point, cancelled: Callable[[], bool]) -> Iterator[tuple[str, float]]:
        """Yields a name for what it runs, and how many parts of this point are done. A cancelled point is not kept."""
        ...

    def size(self) -> tuple[int, int]:
        """Returns parts done and parts in all."""
        ...

    def result(self) -> Any: ...

    def work_left(self, share: float = 0.0) -> float:
        """Estimates how much work is left, in any unit, once ``share`` parts of the first missing point are done.
        Where a class does not say, every part is as much."""
        done, of = self.size()
        return of - done - share

    def forget_noise(self) -> None:
        """Makes the points missing whose speedup came out larger than it can be."""
        ...


def work_units(
    open_points: Callable[[Any, bool], Points], latest: Callable[[], Step | None], again: Again | None = None
) -> Iterator[Work]:
    """Yields a unit that reports the points measured before, then one for each that is missing.

    ``open_points`` takes an engine and whether to forget the points measured before. ``again``: which of them are
    measured again. ``latest``: the step that came in last.
    """
    warm: Any = None  # a reference to the engine that is warm; another visitor's pair may replace it

    def measured_before(engine, cancelled):
        points = open_points(engine, again == "all")
        if again == "noise":
            points.forget_noise()
        yield Report(Step(*points.size(), result=points.result()))

    def next_point(engine, cancelled):
        nonlocal warm
        points = open_points(engine, False)
        missing, (done, of) = points.missing(), points.size()
        if missing:
            if warm is None or warm() is not engine:
                yield Report(Step(done, of, WARMING_UP))
                points.warm(cancelled)
                warm = weakref.ref(engine)
            for doing, share in points.measure(missing[0], cancelled):
                yield Report(Step(done + share, of, doing, left=points.work_left(share)))
        if not cancelled():
            yield Report(Step(*points.size(), result=points.result(), left=points.work_left()))

    yield measured_before
    while not latest().is_complete:
        yield next_point


def tidy(keep: Path) -> None:
    """Deletes the oldest files beside ``keep``, and of its kind. Otherwise a page open to many would fill its disk."""
    kind = keep.name.partition("-")[0]
    files = sorted(keep.parent.glob(f"{kind}-*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in files[:-MOST_FILES]:
        if path != keep:
            path.unlink(missing_ok=True)


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
        step = 60 if seconds >= 90 else 5 if seconds >= 20 else 1  # no more digits than such an estimate can have
        seconds = max(1, round(seconds / step) * step)
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
