"""Streams a job to the visitors who wait for it: every round to the first, only the progress to the others."""

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from engine.errors import quantity
from engine.runtime.job import Job, NamedConfigs, Subscriber
from engine.trace.events import Event, Progress, Round
from engine.trace.trace import Trace, TraceBuilder

SECONDS_BETWEEN_UPDATES = 1 / 6  # more would be more than a browser can draw
_SECONDS_BETWEEN_REPORTS = 1.0  # for those who wait for another visitor's run
_SECONDS_BETWEEN_PLACES = 0.25  # after which a visitor's place in the queue is read again


@dataclass(frozen=True)
class Report:
    """A result of a lab experiment's work, among a job's events."""

    value: object


class Fold:
    """The runs of a job so far, by name: folded once, for all who wait for it. ``tokens``: emitted by each."""

    def __init__(self, configs: NamedConfigs):
        self._runs = {name: TraceBuilder() for name, _ in configs}
        self.tokens = dict.fromkeys(self._runs, 0)
        self._size, self._lock = 0, threading.Lock()

    def advance(self, job: Job) -> None:
        """Adds what the job has reported since the last call."""
        with self._lock:
            for name, event in job.log[self._size :]:
                self._runs[name].add([event])
                self.tokens[name] += len(event.emitted) if isinstance(event, Round) else 0
                self._size += 1

    def traces(self) -> dict[str, Trace | None]:
        """Returns each run's trace so far; None for a run that has not started."""
        return {name: run.trace for name, run in self._runs.items()}


@dataclass(frozen=True)
class Update:
    """The news of one run of a job; ``name`` is its config's. ``fold``: all of the job so far, None of an experiment.

    ``progress``: the step that keeps the run from starting. ``place``: how many visitors go first, which
    engine_status.js shows. ``timed_out``: the job was ended by its time limit. ``others``: the most that shared its
    passes, or ended its measurement by coming.
    """

    name: str
    events: tuple[Event, ...] = ()
    progress: Progress | None = None
    place: int = 0
    fold: Fold | None = None
    timed_out: bool = False
    others: int = 0


def stream_live(subscriber: Subscriber, fold: Fold | None = None) -> Iterator[Update]:
    """Yields everything that the job reports, at most six times a second; raises the error that ended it.

    Ends early for a visitor who has left while others still wait for the job.
    """
    job, start, progress, last_report, due, last = subscriber.job, 0, None, None, 0.0, 0.0
    while True:
        time.sleep(max(0.0, due - time.monotonic()))
        entries, progress, is_done = job.read(start, progress, _SECONDS_BETWEEN_PLACES)
        has_left = subscriber.has_left and not job.is_cancelled
        start += len(entries)
        if fold is not None:
            fold.advance(job)
        for name, group in itertools.groupby(entries, key=lambda entry: entry[0]):
            yield Update(name, tuple(event for _, event in group), fold=fold)
            due = time.monotonic() + SECONDS_BETWEEN_UPDATES
        if has_left:
            return
        if is_done:
            break
        waiting, now = _waiting(job.place(), progress), time.monotonic()
        # Said again although nothing has changed, because only between two updates can a client cancel.
        if waiting[0] is not None and (waiting != last_report or now - last >= _SECONDS_BETWEEN_REPORTS):
            yield Update(job.name, (), *waiting, fold)
            due, last = time.monotonic() + SECONDS_BETWEEN_UPDATES, now
        last_report = waiting
    job.raise_error()


def _waiting(place: int, progress: Progress | None) -> tuple[Progress | None, int]:
    return (Progress(f"Waiting in the queue: {place} before you"), place) if place else (progress, 0)


def stream_progress(subscriber: Subscriber, fold: Fold) -> Iterator[Update]:
    """Yields how far another visitor's equal run is. Its rounds are left out, because drawing them for a whole class
    would slow down the run that is measured."""
    job, last_report = subscriber.job, ""
    while True:
        fold.advance(job)
        place, tokens = job.place(), sum(fold.tokens.values())
        how_far = f"{quantity(place, 'run')} ahead" if place else f"{quantity(tokens, 'token')} so far"
        words = f"Someone else is already running exactly this. You will see the result when it finishes ({how_far})."
        if words != last_report:
            yield Update(job.name, (), Progress(words), place, fold)
        last_report = words
        if subscriber.wait(_SECONDS_BETWEEN_REPORTS):
            break
    if not subscriber.has_left:
        job.raise_error()
