"""Measures an experiment point after point, each a unit of work, so that other visitors get a turn in between."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from app.jobs.runs import Work
from app.jobs.updates import Report

MOST_FILES = 200
WARMING_UP = "warming up"
Again = Literal["all", "noise"]


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


class WarmUpOnce:
    """Warms an engine up once. Because another visitor's pair may replace it between two units, it is remembered."""

    def __init__(self):
        self._engine = lambda: None

    def is_due(self, engine) -> bool:
        return self._engine() is not engine

    def __call__(self, engine, warm: Callable[[], None]) -> None:
        if self.is_due(engine):
            warm()
            self._engine = weakref.ref(engine)


def work_units(
    open_points: Callable[[Any, bool], Points], latest: Callable[[], Step | None], again: Again | None = None
) -> Iterator[Work]:
    """Yields a unit that reports the points measured before, then one for each that is missing.

    ``open_points`` takes an engine and whether to forget the points measured before. ``again``: which of them are
    measured again. ``latest``: the step that came in last.
    """
    yield _measured_before(open_points, again)
    warm_up = WarmUpOnce()
    while not latest().is_complete:
        yield _next_point(open_points, warm_up)


def _measured_before(open_points: Callable[[Any, bool], Points], again: Again | None) -> Work:
    def work(engine, cancelled):
        points = open_points(engine, again == "all")
        if again == "noise":
            points.forget_noise()
        yield Report(Step(*points.size(), result=points.result()))

    return work


def _next_point(open_points: Callable[[Any, bool], Points], warm_up: WarmUpOnce) -> Work:
    def work(engine, cancelled):
        points = open_points(engine, False)
        missing, (done, of) = points.missing(), points.size()
        if missing:
            if warm_up.is_due(engine):
                yield Report(Step(done, of, WARMING_UP))
            warm_up(engine, lambda: points.warm(cancelled))
            for doing, share in points.measure(missing[0], cancelled):
                yield Report(Step(done + share, of, doing, left=points.work_left(share)))
        if not cancelled():
            yield Report(Step(*points.size(), result=points.result(), left=points.work_left()))

    return work


def tidy(keep: Path) -> None:
    """Deletes the oldest files beside ``keep``, and of its kind. Otherwise a page open to many would fill its disk."""
    kind = keep.name.partition("-")[0]
    files = sorted(keep.parent.glob(f"{kind}-*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in files[:-MOST_FILES]:
        if path != keep:
            path.unlink(missing_ok=True)
