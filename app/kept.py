"""Ended runs, kept by their exact settings, so that a class pressing the same example costs one run."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from engine.trace import Trace

MOST_TOKENS = 60_000  # drafted ones included; with its candidates a token takes some kilobytes


@dataclass(frozen=True)
class Recording:
    """Lanes that have all ended by themselves, by name, and when (seconds since the epoch)."""

    lanes: Mapping[str, Trace]
    made: float

    @property
    def run(self) -> Trace:
        return self.lanes["run"]

    @property
    def baseline(self) -> Trace | None:
        return self.lanes.get("baseline")

    @property
    def tokens(self) -> int:
        return sum(len(event.tokens) for trace in self.lanes.values() for event in trace.rounds)


class Kept:
    """Bounded in number and in size; the least recently used goes first. For use from any thread."""

    def __init__(self, most: int, most_tokens: int = MOST_TOKENS):
        self._most, self._most_tokens = most, most_tokens
        self._found: OrderedDict[Hashable, Recording] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Recording | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: Hashable, recording: Recording) -> None:
        with self._lock:
            self._found[key] = recording
            self._found.move_to_end(key)
            while len(self._found) > self._most or self._size() > self._most_tokens:
                self._found.popitem(last=False)

    def _size(self) -> int:
        return sum(recording.tokens for recording in self._found.values())

    def __len__(self) -> int:
        return len(self._found)
