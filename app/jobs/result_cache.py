"""Caches finished runs by their exact settings, so that a class that runs the same example computes it once."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from engine.trace.trace import Trace

MOST_TOKENS = 60_000  # drafted ones included; with its candidates a token takes some kilobytes


@dataclass(frozen=True)
class RecordedRun:
    """The traces of a job whose runs all finished by themselves, by name, and when (seconds since the epoch).

    ``repeats``: how often it was measured and the spread, as views.tiles takes them; empty for one run each.
    """

    traces: Mapping[str, Trace]
    at: float
    repeats: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> Trace:
        return self.traces["run"]

    @property
    def baseline(self) -> Trace | None:
        return self.traces.get("baseline")

    @property
    def tokens(self) -> int:
        return sum(len(event.tokens) for trace in self.traces.values() for event in trace.rounds)


class Sized(Protocol):
    """``tokens``: how many it holds, drafted ones included."""

    @property
    def tokens(self) -> int: ...


T = TypeVar("T", bound=Sized)


class ResultCache(Generic[T]):
    """An LRU cache bounded in entries and in tokens. Thread-safe."""

    def __init__(self, limit: int, token_limit: int = MOST_TOKENS):
        self._limit, self._token_limit = limit, token_limit
        self._runs: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key in self._runs:
                self._runs.move_to_end(key)
            return self._runs.get(key)

    def put(self, key: Hashable, recorded: T) -> None:
        """Keeps the newest result of a key. One that is larger than the whole cache is not kept, and drops no other."""
        with self._lock:
            self._runs.pop(key, None)
            if recorded.tokens > self._token_limit:
                return
            self._runs[key] = recorded
            while len(self._runs) > self._limit or self._size() > self._token_limit:
                self._runs.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        with self._lock:
            self._runs.pop(key, None)

    def _size(self) -> int:
        return sum(recorded.tokens for recorded in self._runs.values())

    def __len__(self) -> int:
        return len(self._runs)
