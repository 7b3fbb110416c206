"""The one thread that owns a device and its models. Everybody else hands it a request and reads events.

Why a thread of its own: inference mode and OpenMP pools belong to a thread, one device must never run two requests
against each other, and a slow reader must not enter a timing. A job's queue has room for every event its request can
cause, so the engine never waits for a reader, and the bound is the request's own limit.
"""

import itertools
import queue
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError
from engine.events import Event

MAX_WAITING = 32


@dataclass(frozen=True, slots=True)
class Progress:
    """What is going on before a run can start; ``fraction`` from 0 to 1."""

    fraction: float
    message: str


class _Done:
    pass


_DONE = _Done()
_PROGRESS_KEPT = 64


class Job:
    """One request. Read it from one thread; cancel it from any."""

    _ids = itertools.count(1)

    def __init__(self, worker: "Worker", config: RunConfig, gammas=None):
        self.id = next(self._ids)
        self.config, self.gammas = config, gammas
        self._worker = worker
        self._queue: queue.Queue = queue.Queue(config.max_new_tokens + _PROGRESS_KEPT + 4)
        self._cancelled = threading.Event()
        self._progress_left = _PROGRESS_KEPT
        self._failed: EngineError | None = None  # seen by poll, still to be raised
        self.done = False  # the reader has seen the end
        self.finished = threading.Event()  # the engine is through with it

    def events(self) -> Iterator[Event | Progress]:
        """Every event up to the end, waiting for each. Raises the EngineError that a failed run ended with."""
        while not self.done:
            item = self._take(self._queue.get())
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
        if isinstance(item, EngineError):
            self.done, self._failed = True, None
            raise item
        return item

    def cancel(self) -> None:
        self._cancelled.set()
        self._worker._forget(self)

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def place(self) -> int:
        """0 = running (or over), n = n requests go first."""
        return self._worker.place(self)

    def _put(self, item) -> None:
        self._queue.put_nowait(item)

    def _put_progress(self, fraction: float, message: str) -> None:
        if self._progress_left > 0:
            self._progress_left -= 1
            self._put(Progress(fraction, message))


class Worker:
    """Runs jobs one at a time, first come first served. ``state``: "idle", "loading", "ready", "busy" or "closed"."""

    def __init__(self, device: str = AUTO, precision: str = AUTO, max_waiting: int = MAX_WAITING, loader=None):
        self.device, self.precision, self.max_waiting = device, precision, max_waiting
        self.state = "idle"
        self.engine = None
        self._loader = loader or _load
        self._waiting: list[Job] = []
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=f"engine-{device}", daemon=True)
        self._thread.start()

    def submit(self, config: RunConfig, gammas=None) -> Job:
        """BadInput when the queue is full."""
        job = Job(self, config, gammas)
        with self._changed:
            if self._closed:
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
            self._closed = True
            waiting, running = list(self._waiting), self._running
            self._changed.notify_all()
        for job in [*waiting, *([running] if running else [])]:
            job.cancel()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    break
                job = self._running = self._waiting.pop(0)
            self._run(job)
            with self._changed:
                self._running = None
        if self.engine is not None:
            self.engine.close()
            self.engine = None
        self.state = "closed"

    def _run(self, job: Job) -> None:
        # A generator frozen by an exception would hold the cache through its frame; closing it frees that at once.
        events = None
        try:
            self.state = "loading"
            events = self._engine_for(job).run(job.config, lambda: job.cancelled, job.gammas)
            for event in events:
                self.state = "busy"
                job._put(event)
        except EngineError as error:
            job._put(error)
        except Exception as error:  # a bug must not take the engine with it: say so, keep serving
            traceback.print_exc()
            job._put(EngineError(f"The engine stumbled on this request ({type(error).__name__}: {error}); try another."))
        finally:
            if events is not None:
                events.close()
            self.state = "ready" if self.engine else "idle"
            job._put(_DONE)
            job.finished.set()

    def _engine_for(self, job: Job):
        """The loaded pair if it is the one asked for; otherwise that pair, after letting go of the other."""
        if self.engine is None or self.engine.pair.name != job.config.pair:
            if self.engine is not None:
                self.engine.close()
                self.engine = None
            self.engine = self._loader(job.config.pair, self.device, self.precision, job._put_progress)
        self.engine.on_progress(job._put_progress)
        return self.engine


def _load(pair: str, device: str, precision: str, progress):
    """Fetch what is missing, then load. Imported here so that the thread, not the page, waits for torch."""
    from engine.catalogue import get_pair
    from engine.fetch import fetch_pair, locate
    from engine.loading import load_engine

    spec = get_pair(pair)
    if locate(spec.target) is None:
        fetch_pair(spec, progress)
    return load_engine(pair, device, precision, progress)


_workers: dict[str, Worker] = {}
_lock = threading.Lock()


def get_worker(device: str | None = None) -> Worker:
    """The process-wide worker of a device."""
    with _lock:
        name = device or AUTO
        if name not in _workers or _workers[name].state == "closed":
            _workers[name] = Worker(name)
        return _workers[name]
