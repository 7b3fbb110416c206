"""What is on offer, one line of races, ended runs kept: with app/door.py all that calls the engine. Knows no gradio."""

import difflib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from app import lent
from app.controls import PAIR
from app.courtesy import Courtesy
from app.door import Engine, Models, Pair
from app.hosting import hosted, shared_gpu
from app.kept import Kept, Recording
from app.limits import Limits
from app.races import Lanes, Line, Race, Report, Stage, Update, Watcher, follow, watch
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.events import Event, Round, RunFinished, RunStarted
from engine.trace import Trace, fold

__all__ = ["Engine", "Lanes", "Limits", "Models", "Pair", "Recording", "Report", "Service", "Stage",
           "State", "Update", "Work"]  # fmt: skip

_log = logging.getLogger(__name__)
_SECONDS_KNOWN = 30.0  # every visitor who opens the page asks which pairs can run
_SECONDS_FOR_A_VISITOR = 4.0  # to come, before the model is loaded without one
_SECONDS_TO_DRAW = 0.5  # what a page needs after its first question
Work = Callable[[object, Callable[[], bool]], Iterator[object]]  # (engine or None, cancelled) → Report, Stage, …


@dataclass(frozen=True)
class State:
    """Of the engine, for everybody: ``kind`` is "asleep", "loading", "ready" or "busy"."""

    kind: str
    device: str | None = None
    waiting: int = 0
    stage: Stage | None = None


def is_baseline(config: RunConfig) -> bool:
    return config.method == "none" or config.gamma == 0


def baseline_of(config: RunConfig) -> RunConfig:
    """The same request without drafting: what a speedup is measured against."""
    return replace(config, method="none", gamma=0)


@dataclass(eq=False)
class _Asked:
    """One press of Run, from before there is a race to stop until its end."""

    stopped: bool = False


class Service:
    def __init__(self, engine: Engine | None = None, limits: Limits | None = None):
        self.engine = engine or Engine()
        self.limits = limits or Limits.from_env()
        self.pairs = {pair.name: pair for pair in self.engine.pairs(self.limits.pairs)}
        self.pair = self.limits.pairs[0] if self.limits.pairs else PAIR
        self.kept = Kept(self.limits.kept)
        self.line = Line(self.limits.queue, self._drive)
        self.courtesy = Courtesy()
        self._watching: dict[str, Watcher] = {}
        self._asked: dict[str, list[_Asked]] = {}  # runs of each visitor, from the asking to the last update
        self._races: dict[Lanes, Race] = {}  # those that others may still join
        self._lock = threading.Lock()
        self._unusable: tuple[set[str], float] = (set(), 0.0)
        self._warming: Stage | None = None  # the model on its way in, before anybody has asked for a run
        self._visited = threading.Event()  # a page asks for the state as soon as it stands

    # ── what is on offer ──

    def warm(self) -> None:
        """Load the model behind the page, if it is here; where it is not, the first run fetches it (a hosted page
        need not ask anybody and fetches it now).

        It begins when the first visitor's page stands, which it would slow down, or when none comes. A failure is not
        lost: the first run meets it again and shows it.
        """

        def load():
            if self._visited.wait(_SECONDS_FOR_A_VISITOR):
                time.sleep(_SECONDS_TO_DRAW)
            try:
                if self.line.running or self.engine.device():  # a run was quicker, and loads what it needs
                    return
                if hosted() or self.engine.has_weights(self.pair):
                    self._load()
            except EngineError as error:
                print(f"The model could not be loaded yet: {error}", flush=True)
            finally:
                self._warming = None

        if shared_gpu():  # there is no device outside a visitor's call
            return
        self._warming = Stage("Loading the model")
        threading.Thread(target=load, name="speclens-warm", daemon=True).start()

    def _load(self) -> None:
        worker = self.engine.worker()
        worker.pause = self.courtesy.wait
        try:
            with self.courtesy.while_loading():
                job = worker.submit(RunConfig("Hello", pair=self.pair, max_new_tokens=2))
                for event in job.events():
                    self._warming = _stage(event) or self._warming
        finally:
            worker.pause = None

    def methods(self, pair: str) -> tuple[str, ...]:
        return self._offered(pair).methods

    def models(self, pair: str, method: str) -> Models:
        return self.engine.models(self._offered(pair).name, method)

    def problems(self, pair: str, method: str = AUTO, precision: str = AUTO) -> list[str]:
        """Why this choice cannot run here; told before anything is loaded."""
        offered = self._offered(pair)
        if method not in (AUTO, *offered.methods):
            return [f"{pair} has no method {method[:40]!r}; choose from {', '.join((AUTO, *offered.methods))}."]
        if precision != AUTO and precision not in self.engine.precisions():
            return [f"This server's device does not offer the precision {precision[:40]!r}; leave it on auto."]
        return self.engine.problems(pair, method, precision, self._may_fetch(pair))

    def unusable(self) -> set[str]:
        """The pairs that cannot run here, with any method; as it was at most half a minute ago."""
        found, until = self._unusable
        if time.monotonic() >= until:
            found = {name for name in self.pairs if self.problems(name)}
            self._unusable = found, time.monotonic() + _SECONDS_KNOWN
        return found

    def to_fetch(self, pair: str) -> int:
        """Bytes that the first run of a pair would download."""
        return self.engine.absent_bytes(pair) if self._may_fetch(pair) else 0

    def _may_fetch(self, pair: str) -> bool:
        return self.limits.fetch or pair == self.pair

    def _offered(self, name: str) -> Pair:
        """Never a folder or a hub name of a visitor's own: the pairs listed, and no others."""
        if name not in self.pairs:
            near = difflib.get_close_matches(name.lower(), self.pairs, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(self.pairs)}."
            raise BadInput(f"This page does not offer the pair {name[:80]!r}; {hint}")
        return self.pairs[name]

    def state(self) -> State:
        """For the chip that every visitor sees. Cheap: no lock of the engine is waited for."""
        self._visited.set()
        race, waiting = self.line.running, self.line.waiting
        stage = self._warming or (race.stage if race else None)
        if stage:
            return State("loading", None, waiting, stage)
        device = self.engine.device()
        kind = "busy" if race else "ready" if device else "asleep"
        return State(kind, device, waiting)

    # ── races ──

    def race(self, visitor: str, config: RunConfig, again: bool = False) -> Iterator[Update | Recording]:
        """Run ``config``, then the same request without drafting; updates come at most six times a second.

        A run of exactly these settings that has ended comes as a Recording instead, and one that is under way for
        somebody else when it is over, unless ``again`` asks to measure anew. Closing the generator cancels what
        nobody else waits for. Raises EngineError with a sentence for the visitor.
        """
        yield from self.measure(visitor, self.lanes(config), again)

    def lanes(self, config: RunConfig) -> Lanes:
        return (("run", config),) + (() if is_baseline(config) else (("baseline", baseline_of(config)),))

    def measure(self, visitor: str, lanes: Lanes, again: bool = False) -> Iterator[Update | Recording]:
        """Any runs of one prompt, one after the other with nobody's in between."""
        self._visited.set()
        with self._asking(visitor) as asked:
            yield from self._measure(visitor, lanes, again, asked)

    def experiment(
        self, visitor: str, pieces: Iterable[Work], config: RunConfig | None = None
    ) -> Iterator[Stage | Report]:
        """Pieces of work with the engine of ``config``, each in its own turn in the line, so that others get theirs
        in between; with no config, work that needs no model. What was reported before a Stop stays reported.

        Raises EngineError with a sentence for the visitor; Unavailable when the time for experiments is up.
        """
        with self._asking(visitor) as asked:
            lane = (("lab", config),)
            if config is not None:
                self._check_lab(config)
                yield Stage("Starting the engine")
                self._check_models(lane)
            seconds = self.limits.lab_seconds or self.limits.seconds
            until = time.monotonic() + seconds
            for work in pieces:
                if asked.stopped:
                    return
                race = Race(lane, work, max(0.1, until - time.monotonic()))
                with self._watch(visitor, lambda race=race: self._entered(race), asked) as watcher:
                    for update in watch(watcher, self.line):
                        if update.stage:
                            yield update.stage
                        yield from (event for event in update.events if isinstance(event, Report))
                    stopped = watcher.stopped
                if race.late:
                    raise Unavailable(f"An experiment may take up to {seconds:,} s here; what it has measured stays.")
                if stopped:
                    return

    @contextmanager
    def _asking(self, visitor: str) -> Iterator[_Asked]:
        asked = _Asked()
        with self._lock:
            mine = self._asked.setdefault(visitor, [])
            for earlier in mine:  # a second Run from the same page replaces the first
                earlier.stopped = True
            mine.append(asked)
        try:
            yield asked
        except EngineError:
            raise
        except Exception as error:  # a bug must not leave a page that says it is running
            _log.exception("a run ended in an unexpected error")
            raise EngineError(f"The server stumbled on this run ({type(error).__name__}); try again.") from error
        finally:
            with self._lock:
                mine.remove(asked)
                if not mine:
                    self._asked.pop(visitor, None)

    def _measure(self, visitor: str, lanes: Lanes, again: bool, asked: _Asked) -> Iterator[Update | Recording]:
        for _, config in lanes:
            self._check(config)
        if not again and (found := self.kept.get(lanes)):
            self._replace(visitor)
            yield found
            return
        yield Update(lanes[0][0], stage=Stage("Starting the engine"))
        self._check_models(lanes)
        if asked.stopped:
            return
        with self._watch(visitor, lambda: self._joined(lanes, again), asked) as watcher:
            if watcher.live:
                yield from watch(watcher, self.line)
                if watcher.race.late:
                    yield Update(lanes[0][0], late=True)
                return
            yield from follow(watcher, self.line)
            found = _recording(watcher.race)
            if watcher.stopped:
                return
            if found is None:
                raise Unavailable(
                    f"That run took longer than the {self.limits.seconds} s it may; ask for fewer tokens."
                )
            yield found

    def stop(self, visitor: str) -> bool:
        """The visitor's run ends, if any, unless others wait for the same one; the device is free within a round."""
        with self._lock:
            asked = list(self._asked.get(visitor, ()))
            for each in asked:
                each.stopped = True
        self._replace(visitor)
        return bool(asked)

    def _replace(self, visitor: str) -> None:
        with self._lock:
            watcher = self._watching.get(visitor)
        if watcher:
            self._leave(watcher)

    def busy(self, visitor: str) -> bool:
        """Whether this visitor's page has a run in progress, waiting, or about to be either."""
        with self._lock:
            return visitor in self._asked

    def _check(self, config: RunConfig) -> None:
        self.limits.check(config)
        self._offered(config.pair)

    def _check_lab(self, config: RunConfig) -> None:
        if not self.limits.lab_seconds or shared_gpu():  # such work cannot be sent to another process
            raise Unavailable(
                "This page is shared and offers no experiments that need a model; run SpecLens on your own machine."
            )
        self._check(config)

    def _check_models(self, lanes: Lanes) -> None:
        """What takes a look at the models' files; nothing is loaded."""
        config = lanes[0][1]
        for _, each in lanes:
            if reasons := self.problems(each.pair, each.method, each.precision):
                raise Unavailable(" ".join(reasons))
        count = self.engine.prompt_tokens(config.pair, config.prompt + (config.system or ""))
        if count and count > self.limits.prompt_tokens:
            raise BadInput(
                f"The prompt has {count:,} tokens; this page takes up to {self.limits.prompt_tokens:,}. Shorten it."
            )

    @contextmanager
    def _watch(self, visitor: str, join: Callable[[], Watcher], asked: _Asked) -> Iterator[Watcher]:
        self._replace(visitor)
        watcher = join()
        with self._lock:
            self._watching[visitor] = watcher
            stopped = asked.stopped
        if stopped:  # meanwhile
            self._leave(watcher)
        try:
            yield watcher
        finally:
            self._leave(watcher)
            with self._lock:
                if self._watching.get(visitor) is watcher:
                    del self._watching[visitor]

    def _joined(self, lanes: Lanes, again: bool) -> Watcher:
        with self._lock:
            race = None if again else self._races.get(lanes)
            watcher = race.join() if race else None
            if watcher is None:
                race = Race(lanes)
                watcher = self._entered(race)
                self._races[lanes] = race
            return watcher

    def _entered(self, race: Race) -> Watcher:
        watcher = race.join()
        self.line.enter(race)
        return watcher

    def _leave(self, watcher: Watcher) -> None:
        race = watcher.race
        race.leave(watcher)
        if race.cancelled:
            self.line.drop(race)
            self._forget(race)

    def _forget(self, race: Race) -> None:
        with self._lock:
            if self._races.get(race.lanes) is race:
                del self._races[race.lanes]

    def _drive(self, race: Race) -> None:
        """In the line's thread: one race to its end. All its jobs are queued together, so nothing falls between."""
        try:
            for lane, item in self._events(race):
                if stage := _stage(item):
                    race.tell(stage)
                else:
                    race.add(lane, [item])
            if found := _recording(race):
                self.kept.put(race.lanes, found)
        finally:
            self._forget(race)

    def _events(self, race: Race) -> Iterator[tuple[str, object]]:
        if race.lanes[0][1] is None:
            yield from self._without_model(race)
            return
        if shared_gpu():
            yield from lent.events(race, self.limits.seconds)
            return
        worker = self.engine.worker()
        jobs = [worker.submit(config, work=race.work) for _, config in race.lanes]
        race.drives(jobs)
        try:
            for (lane, _), job in zip(race.lanes, jobs, strict=True):
                yield from ((lane, item) for item in self._reports(race, job))
        finally:
            for job in jobs:  # where one has failed the others are not wanted
                job.cancel()

    def _without_model(self, race: Race) -> Iterator[tuple[str, object]]:
        """In the line's thread all the same: on a CPU it would take time from whatever is being measured."""
        race.begin(race.seconds)
        for item in race.work(None, lambda: race.cancelled):
            yield race.lanes[0][0], item
            if race.out_of_time():
                race.cancel()

    def _reports(self, race: Race, job) -> Iterator[object]:
        while not job.done:
            for item in job.poll(0.1):
                if isinstance(item, RunStarted | Report):
                    race.begin(race.seconds or self.limits.seconds)
                yield item
            if self._warming and not race.log:
                yield self._warming
            if race.out_of_time():
                race.cancel()


def _recording(race: Race) -> Recording | None:
    """The race as something to show again; None unless every lane has ended by itself."""
    lanes = {lane: _trace(race, lane) for lane, _ in race.lanes}
    if any(trace is None or trace.finished is None or trace.finished.reason == "cancelled" for trace in lanes.values()):
        return None
    return Recording(lanes, time.time())


def _trace(race: Race, lane: str) -> Trace | None:
    events: list[Event] = [event for name, event in race.log if name == lane]
    return fold(events) if events and isinstance(events[0], RunStarted) else None


def _stage(item) -> Stage | None:
    """The engine's progress notes as words; ``None`` for the run's own events."""
    if isinstance(item, Stage):
        return item
    return None if isinstance(item, RunStarted | Round | RunFinished | Report) else Stage(item.message, item.fraction)
