"""Broadcasts the events of a job: runs of one request, one after the other, for any number of readers.

A slow reader never delays the engine: events go into a log that only grows, and each reader keeps its own place in it.
The request's own limit on new tokens bounds the log.
"""

import contextvars
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engine.errors import EngineError
from engine.trace.events import Progress

NamedConfigs = tuple[tuple[str, Any], ...]  # a RunConfig, or None for work without an engine
# (engine, should_stop) → results of any kind, and Progress between them. The engine is None where the config is.
Work = Callable[[Any, Callable[[], bool]], Any]  # a generator of results


class LoadCancelled(BaseException):
    """Raised to cancel loading. Derives from BaseException so that `except Exception` does not swallow it."""


class Subscriber:
    """One reader of a job. ``is_live``: shows every round; the others wait for the end."""

    def __init__(self, job: "Job", is_live: bool):
        self.job, self.is_live, self.has_left = job, is_live, False
        self._over = threading.Event()

    def leave(self) -> None:
        """Leaves the job, which the last subscriber cancels: the engine is free within a round."""
        self.job._unsubscribe(self)

    def wait(self, timeout: float) -> bool:
        """Waits for the job's end, or until this reader leaves. Returns whether either has come."""
        return self._over.wait(timeout)


class Job:
    """Named runs, or one piece of ``work`` with the engine of the first config, and everything that they report.

    ``id``: for the server's log. ``log``: (name, event) in order. ``progress``: how far loading or calibrating is, None
    while events come. ``error``: what the job ended with, without its traceback. ``timed_out``: it was ended by its
    limit of ``seconds``, which count from the first event, because loading a model is not the reader's doing.
    ``on_end`` is called once, before the readers see the end. A warm-up belongs to no visitor and so has no place in
    the queue. ``may_share``: other jobs may share its passes; ``sharing_jobs``: how many did. With one or more its runs
    after the first, the baseline among them, are left out.
    """

    def __init__(
        self,
        worker,
        configs: Sequence[tuple[str, Any]],
        work: Work | None = None,
        seconds: float | None = None,
        on_end: Callable[["Job"], None] | None = None,
        is_warm_up: bool = False,
        may_share: bool = False,
    ):
        self.id = secrets.token_hex(4)
        self.configs, self.work, self.seconds, self.is_warm_up = tuple(configs), work, seconds, is_warm_up
        self.context = contextvars.copy_context()  # a hosted GPU is granted to the visitor who asked first
        self.log: list[tuple[str, Any]] = []
        self.progress: Progress | None = None
        self.error: EngineError | None = None
        self.is_cancelled = self.is_done = self.timed_out = False
        self.may_share, self.sharing_jobs = may_share, 0
        self._worker, self._on_end = worker, on_end
        self._deadline: float | None = None
        self._subscribers: list[Subscriber] = []
        self._changed = threading.Condition()

    # ── for readers, on any thread ──

    def read(self, start: int = 0, progress: Progress | None = None, timeout: float | None = None):
        """Waits for an entry at ``start``, for another progress than ``progress``, or for the end.

        Returns (the entries from ``start`` on, the progress after them, whether the job is over).
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self.is_done or len(self.log) > start or self.progress not in (None, progress), timeout
            )
            return self.log[start:], self.progress, self.is_done

    def entries(self, start: int = 0) -> Iterator[tuple[str, object]]:
        """Yields every (name, event) from ``start`` on, and the newest Progress between them. Raises its error last."""
        progress, is_done = None, False
        while not is_done:
            fresh, newest, is_done = self.read(start, progress)
            start += len(fresh)
            yield from fresh
            if newest not in (None, progress):
                yield self.name, newest
            progress = newest
        self.raise_error()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end. Returns whether it has come."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_done, timeout)

    def raise_error(self) -> None:
        """Raises a copy each time, because a raised error keeps the frames of its reader alive."""
        if self.error is not None:
            raise type(self.error)(str(self.error))

    @property
    def name(self) -> str:
        """The name of the newest event's run, or of the first config."""
        return self.log[-1][0] if self.log else self.configs[0][0]

    def place(self) -> int:
        """Counts the jobs that go first; 0 for one that is running or over."""
        return self._worker.place(self)

    def subscribe(self) -> Subscriber:
        """Adds a subscriber, of which the first is live."""
        with self._changed:
            subscriber = Subscriber(self, is_live=not any(each.is_live for each in self._subscribers))
            self._subscribers.append(subscriber)
            if self.is_done:
                subscriber._over.set()
            return subscriber

    def join(self) -> Subscriber | None:
        """Subscribes to another's job. Returns None once it is cancelled or over."""
        with self._changed:
            return None if self.is_cancelled or self.is_done else self.subscribe()

    def _unsubscribe(self, subscriber: Subscriber) -> None:
        with self._changed:
            subscriber.has_left = True
            subscriber._over.set()
            is_last = self._subscribers == [subscriber] and not self.is_done
            self._subscribers = [each for each in self._subscribers if each is not subscriber]
            self.is_cancelled = self.is_cancelled or is_last  # under the lock, so that no other reader joins meanwhile
        if is_last:
            self._worker.dequeue(self)

    def cancel(self) -> None:
        """Ends it: at once while it waits or loads, otherwise with the round in progress."""
        self.is_cancelled = True
        self._worker.dequeue(self)

    # ── for the engine's thread ──

    def publish(self, name: str, item: object) -> None:
        if isinstance(item, Progress):
            self.report(item)
            return
        self.start_clock()
        with self._changed:
            self.log.append((name, item))
            self.progress = None
            self._changed.notify_all()

    def report(self, progress: Progress) -> None:
        """Keeps only the newest progress, because a download reports thousands. Raises LoadCancelled."""
        if self.should_stop():
            raise LoadCancelled
        self.show(progress)

    def show(self, progress: Progress) -> None:
        with self._changed:
            if progress != self.progress:
                self.progress = progress
                self._changed.notify_all()

    def start_clock(self) -> None:
        if self._deadline is None and self.seconds is not None:
            self._deadline = time.monotonic() + self.seconds

    @property
    def elapsed(self) -> float:
        """Seconds since its first event; 0 for a job without one, or without a limit."""
        if self._deadline is None or self.seconds is None:
            return 0.0
        return max(0.0, time.monotonic() - (self._deadline - self.seconds))

    def should_stop(self) -> bool:
        """Answers the engine, which asks before every round."""
        if self._deadline is not None and time.monotonic() > self._deadline and not self.is_cancelled:
            self.timed_out = self.is_cancelled = True
        return self.is_cancelled

    def end(self, error: EngineError | None = None) -> None:
        self.error = error
        try:
            if self._on_end is not None:
                self._on_end(self)
        finally:
            with self._changed:
                self.is_done = True
                for subscriber in self._subscribers:
                    subscriber._over.set()
                self._changed.notify_all()
