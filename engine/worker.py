"""The one thread that owns a device and its models. Everybody else hands it a request and reads events.

Why a thread of its own: inference mode and OpenMP pools belong to a thread, one device must never run two requests
against each other, and a slow reader must not enter a timing. A job's queue has room for every event its request can
cause, so the engine never waits for a reader, and the bound is the request's own limit.
"""

import itertools
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError
from engine.events import Event

MAX_WAITING = 32
MAX_REPORTS = 1_000  # of a piece of work that is no run
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """What is going on before a run can start; ``fraction`` from 0 to 1."""

    fraction: float
    message: str


class _Done:
    pass


class _News:
    pass


class _BrokenOff(BaseException):
    """Ends loading for a request that nobody waits for. No Exception, so that nothing on the way takes it for one."""


_DONE = _Done()
_NEWS = _News()  # stands in the queue for the latest progress
_BESIDE_ROUNDS = 5  # one note of progress, the start, the end, an error, _DONE


# (engine, cancelled) → up to MAX_REPORTS reports of any kind, and notes of Progress between them.
Work = Callable[[object, Callable[[], bool]], Iterator[object]]


class Job:
    """One request: a run, or ``work`` with the engine that ``config`` names. Read it from one thread; cancel it from
    any."""

    _ids = itertools.count(1)

    def __init__(self, worker: "Worker", config: RunConfig, gammas=None, work: Work | None = None):
        self.id = next(self._ids)
        self.config, self.gammas, self.work = config, gammas, work
        self._worker = worker
        self._queue: queue.Queue = queue.Queue((MAX_REPORTS if work else config.max_new_tokens) + _BESIDE_ROUNDS)
        self._cancelled = threading.Event()
        self._progress: Progress | None = None  # the latest, until it is read
        self._lock = threading.Lock()
        self._failed: EngineError | None = None  # seen by poll, still to be raised
        self.done = False  # the reader has seen the end
        self.finished = threading.Event()  # the engine is through with it

    def events(self) -> Iterator[Event | Progress]:
        """Every event up to the end, waiting for each. Raises the EngineError that a failed run ended with."""
        while not self.done:
            item = self._take(self._failed or self._queue.get())
            if item is not None:
                yield item

    def poll(self, timeout: float = 0.0) -> list[Event | Progress]:
        """What has happened since the last look, waiting up to ``timeout`` seconds for the first event. An error is
        raised once everything before it has been given out."""
        found = []
        if self._failed is not None:
            self._take(self._failed)
        try:
            while not self.done:
                item = self._queue.get(timeout=timeout) if timeout > 0 and not found else self._queue.get_nowait()
                if isinstance(item, EngineError) and found:
                    self._failed = item
                    break
                event = self._take(item)
                if event is not None:
                    found.append(event)
        except queue.Empty:
            pass
        return found

    def _take(self, item):
        if item is _DONE:
            self.done = True
            return None
        if item is _NEWS:
            with self._lock:
                item, self._progress = self._progress, None
        if isinstance(item, EngineError):
            self.done, self._failed = True, None
            raise item
        return item

    def cancel(self) -> None:
        """End it: at once while it waits or loads, otherwise with the round in progress."""
        self._cancelled.set()
        self._worker._forget(self)

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def place(self) -> int:
        """0 = running (or over), n = n requests go first."""
        return self._worker.place(self)

    def _begun(self, engine) -> Iterator:
        if self.work is not None:
            return self.work(engine, lambda: self.cancelled)
        return engine.run(self.config, lambda: self.cancelled, self.gammas)

    def _put(self, item) -> None:
        self._queue.put_nowait(item)

    def _put_error(self, error: EngineError) -> None:
        """Without its traceback: the frames in it would keep models and caches in memory for as long as it is kept."""
        self._put(type(error)(str(error)))

    def _put_progress(self, fraction: float, message: str) -> None:
        """Only the latest is kept, for a download has thousands. Breaks a cancelled job's loading off."""
        self._worker._pause()
        if self.cancelled:
            raise _BrokenOff
        with self._lock:
            unread, self._progress = self._progress is not None, Progress(fraction, message)
        if not unread:
            self._put(_NEWS)


class Worker:
    """Runs jobs one at a time, first come first served. ``state``: "idle", "loading", "ready", "busy" or "closed"."""

    def __init__(self, device=AUTO, precision=AUTO, max_waiting: int = MAX_WAITING, loader=None, fetcher=None):
        self.device, self.precision, self.max_waiting = device, precision, max_waiting
        self.state = "idle"
        self.engine = None
        self._asked: tuple[str, str] | None = None  # pair and precision that the loaded engine was asked for as
        self._load, self._fetch = loader or _load, fetcher or (_fetch if loader is None else None)
        self._waiting: list[Job] = []
        self._running: Job | None = None
        self._changed = threading.Condition()
        self.closed = False
        self.pause: Callable[[], None] | None = None  # on the engine's thread, between pieces of loading; may wait
        self._thread = threading.Thread(target=self._serve, name=f"engine-{device}", daemon=True)
        self._thread.start()

    def submit(self, config: RunConfig, gammas=None, work: Work | None = None) -> Job:
        """BadInput when the queue is full."""
        job = Job(self, config, gammas, work)
        with self._changed:
            if self.closed:
                raise BadInput("The engine has been closed; start it again.")
            if len(self._waiting) >= self.max_waiting:
                raise BadInput(f"The queue is full: {self.max_waiting} runs are waiting. Try again in a minute.")
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    def place(self, job: Job) -> int:
        with self._changed:
            if job not in self._waiting:
                return 0
            return self._waiting.index(job) + (self._running is not None)

    def _forget(self, job: Job) -> None:
        """A job cancelled before its turn ends at once and never touches the device."""
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                job._put(_DONE)
                job.finished.set()

    def close(self) -> None:
        """Cancel everything, end the thread, give the models' memory back."""
        with self._changed:
            self.closed = True
            jobs = [*self._waiting, *([self._running] if self._running else [])]
            self._changed.notify_all()
        for job in jobs:
            job.cancel()
        self._thread.join()

    def _serve(self) -> None:
        while job := self._next():
            self._run(job)
            job.finished.set()
            with self._changed:
                self._running = job = None  # an idle engine holds nobody's events
        self._drop_engine()
        self.state = "closed"

    def _next(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.closed)
            if self.closed:  # close() ends those that still wait
                return None
            self._running = self._waiting.pop(0)
            return self._running

    def _run(self, job: Job) -> None:
        # A generator frozen by an exception would hold the cache through its frame; closing it frees that at once.
        events = None
        try:
            self.state = "loading"
            events = job._begun(self._engine_for(job))
            for event in events:
                self.state = "busy"
                if isinstance(event, Progress):
                    job._put_progress(event.fraction, event.message)
                else:
                    job._put(event)
        except _BrokenOff:
            pass
        except EngineError as error:
            job._put_error(error)
        except BaseException as error:  # a bug must not take the engine with it: say so, keep serving
            _log.exception("a request ended in an unexpected error")
            said = f"{type(error).__name__}: {str(error)[:300]}"
            job._put(EngineError(f"The engine stumbled on this request ({said}); try another."))
        finally:
            if events is not None:
                events.close()
            if self.engine is not None:
                self.engine.on_progress(_tell_nobody)
            self.state = "ready" if self.engine else "idle"
            job._put(_DONE)

    def _engine_for(self, job: Job):
        """The loaded pair if it is the one asked for; otherwise that pair, after letting go of the other."""
        self._pause()
        tell = job._put_progress
        precision = self.precision if job.config.precision == AUTO else job.config.precision
        loaded = self.engine is not None and self._asked == (job.config.pair, precision)
        if self._fetch and not (loaded and self.engine.has(job.config.method)):
            self._fetch(job.config, tell)
        if not loaded:
            self._drop_engine()
            self.engine = self._load(job.config, self.device, precision, tell)
            self._asked = job.config.pair, precision
        self.engine.on_progress(tell)
        if job.cancelled:
            raise _BrokenOff
        return self.engine

    def _pause(self) -> None:
        if (pause := self.pause) is not None:  # looked at once, for another thread may take it away
            pause()

    def _drop_engine(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()


def _tell_nobody(fraction: float, message: str) -> None:
    pass


def _fetch(config: RunConfig, progress) -> None:
    """Bring what the request's method needs and is not here."""
    from engine.catalogue import get_pair
    from engine.fetch import fetch_pair, locate

    spec = get_pair(config.pair)
    if any(locate(model) is None for model in spec.models(config.method)):
        fetch_pair(spec, progress)


def _load(config: RunConfig, device: str, precision: str, progress):
    """Imported here so that the thread, not the page, waits for torch."""
    from engine.loading import load_engine

    return load_engine(config.pair, device, precision, progress)


_workers: dict[str, Worker] = {}
_lock = threading.Lock()


def get_worker(device: str | None = None) -> Worker:
    """The process-wide worker of a device."""
    with _lock:
        name = device or AUTO
        if name not in _workers or _workers[name].closed:
            _workers[name] = Worker(name)
        return _workers[name]
