"""Keeps one request of a visitor, from the press of a button to its last update.

Its states, the flags by which they are known, and what leads there:

| state      | flags                         | entered by                                                          |
|------------|-------------------------------|---------------------------------------------------------------------|
| registered | none                          | `Runs.open`, when the button is pressed                             |
| streaming  | is_taken                      | `Press.stream`; from `follow` on there is a job                     |
| stopped    | is_stopped, was_stopped       | `Runs.stop`: the visitor pressed Stop                               |
| replaced   | is_stopped, is_replaced       | `Runs.open` for a newer press; `take_over` after a reload             |
| left       | is_left                       | `Runs.leave`: the page is gone, and may come back                   |
| over       | over, is_stopped              | `Runs.close`: the end of the stream, or some seconds after leaving  |

A request is stopped or replaced in any state but over, also before its stream or its job begins, and ends as soon as
they notice. Only a request that has left stays open after its stream, for `Runs.resume`.
"""

import secrets
import threading
from collections.abc import Iterator
from typing import TypeVar

from app.jobs.updates import Fold
from engine.config import RunConfig
from engine.runtime.job import Job, Subscriber
from engine.trace.events import Round

T = TypeVar("T")


class Replaced(BaseException):
    """Ends the stream of a request that another one of its visitor has replaced. Not an Exception, because no handler
    has anything to say about it."""


class VisitorRequest:
    """One request of a visitor, from the press of a button to its last update. Runs.open registers it.

    ``is_stopped``: it has been stopped, replaced, or is over; ``was_stopped``: the visitor pressed Stop. ``is_taken``:
    a stream carries it out. ``over``: set once it is over. ``is_left``: its page is gone. ``key``: a text that only its
    page knows, and sends after a reload. ``address``: where a request over HTTP comes from.
    """

    def __init__(self, visitor: str, address: str | None = None):
        self.visitor, self.address = visitor, address
        self.key, self.over = secrets.token_urlsafe(16), threading.Event()
        self.is_stopped = self.was_stopped = self.is_replaced = self.is_left = False
        self._stream = threading.Lock()  # held from the moment that a stream takes it
        self.subscriber: Subscriber | None = None  # None until there is a job
        self.fold: Fold | None = None  # the fold of that job

    @property
    def job(self) -> Job | None:
        return self.subscriber.job if self.subscriber else None

    @property
    def config(self) -> RunConfig | None:
        """The config of its first run; None before there is a job."""
        return self.job.configs[0][1] if self.job else None

    @property
    def is_taken(self) -> bool:
        return self._stream.locked()

    @property
    def is_over(self) -> bool:
        return self.over.is_set()

    @property
    def is_running(self) -> bool:
        """Whether its job waits or runs."""
        return self.job is not None and not self.job.is_done

    @property
    def tokens(self) -> int:
        """The number of tokens in the rounds of its job, drafted ones included."""
        log = self.job.log if self.job else ()
        return sum(len(event.tokens) for _, event in log if isinstance(event, Round))

    def take(self) -> bool:
        """Notes that a stream carries this request out. Returns False if one already does."""
        return self._stream.acquire(blocking=False)

    def stop(self) -> None:
        self.is_stopped = True
        if self.subscriber is not None:
            self.subscriber.leave()

    def updates(self, updates: Iterator[T]) -> Iterator[T]:
        """Raises Replaced at the first update after another request has replaced this one."""
        for update in updates:
            if self.is_replaced:
                raise Replaced
            yield update

    def follow(self, subscriber: Subscriber, fold: Fold | None = None) -> Subscriber:
        """Reads the job through ``subscriber``, which a Stop makes leave, also one that came before."""
        self.subscriber, self.fold = subscriber, fold
        if self.is_stopped:
            subscriber.leave()
        return subscriber

    def take_over(self, earlier: "VisitorRequest") -> None:
        """Takes over the job of ``earlier``, which ends without cancelling it."""
        self.key, subscriber = earlier.key, earlier.subscriber
        earlier.subscriber, earlier.is_replaced = None, True
        if subscriber is not None:
            self.follow(subscriber, earlier.fold)
