"""Races: what a visitor's Run sets going, who watches it, and the one line in which races wait for the engine.

A race is driven by the line's own thread, never by a visitor's, so any number of visitors can watch the same one, and
it ends early when the last of them has gone. Knows neither gradio nor the engine.
"""

import contextvars
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.config import RunConfig
from engine.errors import BadInput, EngineError
from engine.events import Event, Round

SECONDS_BETWEEN_UPDATES = 1 / 6  # more than this and a browser falls behind (DESIGN.md, The screen)
SECONDS_BETWEEN_NEWS = 1.0  # for those who wait for another visitor's race
_LOOK = 0.25  # seconds between looks at one's place in the line
Lanes = tuple[tuple[str, RunConfig], ...]


@dataclass(frozen=True)
class Stage:
    """What is going on before a lane's first token; ``fraction`` is 0–1, or None where it cannot be known.
    ``place``: how many visitors go first."""

    message: str
    fraction: float | None = None
    place: int = 0


@dataclass(frozen=True)
class Report:
    """What a piece of work has found out; stands among a lane's events."""

    value: object


@dataclass(frozen=True)
class Update:
    """What happened in one lane since its last update. ``late``: the race was ended by its time limit."""

    lane: str
    events: tuple[Event, ...] = ()
    stage: Stage | None = None
    late: bool = False


@dataclass(eq=False)
class Watcher:
    """One visitor looking at one race. ``live``: sees every round; the others are told how far it is."""

    race: "Race"
    live: bool
    stopped: bool = False


class Race:
    """Lanes that run one after the other, and everything they reported so far.

    Or a piece of ``work`` for the lab, in one lane, that may take ``seconds``; its config is None where it needs no
    model.
    """

    def __init__(self, lanes: Lanes, work: Callable | None = None, seconds: float | None = None):
        self.lanes, self.work, self.seconds = lanes, work, seconds
        self.log: list[tuple[str, Event]] = []
        self.stage: Stage | None = None  # what keeps the lane at hand from starting
        self.failure: EngineError | None = None
        self.cancelled = self.over = self.late = False
        self._until: float | None = None
        self.changed = threading.Condition()
        self.context = contextvars.copy_context()  # of the visitor who asked first: a hosted GPU is granted to them
        self._jobs: list = []
        self._watchers: list[Watcher] = []

    # ── what the one who drives it says ──

    def drives(self, jobs: list) -> None:
        with self.changed:
            self._jobs = jobs
            cancelled = self.cancelled
        if cancelled:
            self.cancel()

    def begin(self, seconds: float) -> None:
        """The time limit counts from the first lane's first event: loading a model is not the visitor's doing."""
        self._until = self._until or time.monotonic() + seconds

    def out_of_time(self) -> bool:
        """Told once."""
        late = self._until is not None and time.monotonic() > self._until and not self.late
        self.late = self.late or late
        return late

    def add(self, lane: str, events: list[Event]) -> None:
        with self.changed:
            self.log += [(lane, event) for event in events]
            self.stage = None
            self.changed.notify_all()

    def tell(self, stage: Stage | None) -> None:
        with self.changed:
            if stage != self.stage:
                self.stage = stage
                self.changed.notify_all()

    def end(self, failure: EngineError | None = None) -> None:
        with self.changed:
            self.over, self.failure = True, failure
            self.changed.notify_all()

    # ── what visitors do ──

    def join(self) -> Watcher | None:
        """Someone watches; the first sees it live. None where there is nothing left to wait for."""
        with self.changed:
            if self.cancelled or self.over:
                return None
            watcher = Watcher(self, live=not any(w.live for w in self._watchers))
            self._watchers.append(watcher)
            return watcher

    def news(self, seen: int, known: Stage | None) -> tuple[list[tuple[str, Event]], Stage | None, bool]:
        """What came after ``seen`` entries of the log, what is waited for, whether it is over; waits for a change."""
        with self.changed:
            self.changed.wait_for(lambda: self.over or len(self.log) > seen or self.stage != known, timeout=_LOOK)
            return self.log[seen:], self.stage, self.over

    def leave(self, watcher: Watcher) -> None:
        """The last one to leave ends the race: the engine gives the device back within a round."""
        with self.changed:
            watcher.stopped = True
            if watcher in self._watchers:
                self._watchers.remove(watcher)
            alone = not self._watchers
            self.changed.notify_all()
        if alone:
            self.cancel()

    def cancel(self) -> None:
        with self.changed:
            self.cancelled = True
            jobs = list(self._jobs)
        for job in jobs:
            job.cancel()

    @property
    def tokens(self) -> int:
        return sum(len(event.emitted) for _, event in self.log if isinstance(event, Round))


class Line:
    """Races, first come first served: one runs, ``most`` wait. ``drive`` runs one to its end."""

    def __init__(self, most: int, drive: Callable[[Race], None]):
        self._most, self._drive = most, drive
        self._waiting: deque[Race] = deque()
        self._running: Race | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def enter(self, race: Race) -> None:
        with self._changed:
            if len(self._waiting) >= self._most:
                raise BadInput(f"The queue is full: {self._most} runs are waiting. Try again in a minute.")
            self._waiting.append(race)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="speclens-line", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def place(self, race: Race) -> int:
        """0 = running (or over), n = n races go first."""
        with self._changed:
            if race not in self._waiting:
                return 0
            return self._waiting.index(race) + (self._running is not None)

    def drop(self, race: Race) -> None:
        """A cancelled race that has not begun ends at once."""
        with self._changed:
            waiting = race in self._waiting
            if waiting:
                self._waiting.remove(race)
        if waiting:
            race.end()

    @property
    def running(self) -> Race | None:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                race = self._running = self._waiting.popleft()
            try:
                race.context.run(self._drive, race)
                race.end()
            except EngineError as error:
                race.end(error)
            except Exception as error:  # a bug must not take the line with it
                race.end(EngineError(f"The engine stumbled on this request ({type(error).__name__}); try another."))
            finally:
                with self._changed:
                    self._running = None


def watch(watcher: Watcher, line: Line) -> Iterator[Update]:
    """Everything the race reports, as it comes, at most six times a second; raises what the race ended with.

    Ends early for a visitor who stopped while others still wait for the race.
    """
    race, seen, known, said, due = watcher.race, 0, None, None, 0.0
    while True:
        time.sleep(max(0.0, due - time.monotonic()))
        fresh, known, over = race.news(seen, known)
        gone = watcher.stopped and not race.cancelled
        place, stage = line.place(race), known
        if place and not over:
            stage = Stage(f"Waiting in the queue: {place} before you", place=place)
        seen += len(fresh)
        for lane, events in itertools.groupby(fresh, key=lambda entry: entry[0]):
            yield Update(lane, tuple(event for _, event in events))
            due = time.monotonic() + SECONDS_BETWEEN_UPDATES
        if stage and stage != said and not over:
            yield Update(_lane(race), stage=stage)
            due = time.monotonic() + SECONDS_BETWEEN_UPDATES
        said = stage
        if gone or over:
            break
    if race.failure and not gone:
        raise race.failure


def follow(watcher: Watcher, line: Line) -> Iterator[Update]:
    """Only how far the race of another visitor is: drawing it thirty times would slow down what is measured."""
    race, said = watcher.race, None
    while not (race.over or watcher.stopped):
        place, made = line.place(race), race.tokens
        how_far = f"{place} runs before it" if place else f"{made} tokens so far"
        stage = Stage(f"The very same run is under way for another visitor; you get its recording: {how_far}",
                      place=place)  # fmt: skip
        if stage != said:
            yield Update(_lane(race), stage=stage)
        said = stage
        with race.changed:
            race.changed.wait_for(lambda: race.over or watcher.stopped, timeout=SECONDS_BETWEEN_NEWS)
    if race.failure and not watcher.stopped:
        raise race.failure


def _lane(race: Race) -> str:
    return race.log[-1][0] if race.log else race.lanes[0][0]
