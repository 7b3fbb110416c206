"""Runs jobs on the one thread that owns a device and its models, first come first served.

Because inference mode and OpenMP pools belong to a thread, and two requests on one device would slow each other down,
everything that computes is a job in this queue.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing

from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError
from engine.runtime.job import Job, LoadCancelled, Work
from engine.trace.events import Progress

MAX_WAITING = 32
_log = logging.getLogger(__name__)


class Worker:
    """Jobs wait in one queue and run one at a time, with nothing between the runs of a job."""

    def __init__(self, device=AUTO, precision=AUTO, max_waiting: int = MAX_WAITING, loader=None, fetcher=None):
        self.device, self.precision, self.max_waiting = device, precision, max_waiting
        self.engine = None
        self._loaded_as: tuple[str, str] | None = None  # the pair and precision that the loaded engine was requested by
        self._load, self._fetch = loader or _load, fetcher or (_fetch if loader is None else None)
        self._waiting: list[Job] = []
        self._running: Job | None = None
        self._changed = threading.Condition()
        self.is_closed = False
        self._thread = threading.Thread(target=self._serve, name=f"engine-{device}", daemon=True)
        self._thread.start()

    def submit(
        self,
        configs: Sequence[tuple[str, RunConfig | None]],
        work: Work | None = None,
        seconds: float | None = None,
        on_end: Callable[[Job], None] | None = None,
        is_warm_up: bool = False,
    ) -> Job:
        """Put a job into the queue; its arguments are those of Job. BadInput when the queue is full."""
        job = Job(self, configs, work, seconds, on_end, is_warm_up)
        with self._changed:
            if self.is_closed:
                raise BadInput("The engine has been closed; start it again.")
            if len(self._waiting) >= self.max_waiting:
                raise BadInput(f"The queue is full: {self.max_waiting} runs are waiting. Try again in a minute.")
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    @property
    def running(self) -> Job | None:
        return self._running

    @property
    def waiting(self) -> int:
        """How many jobs have others before them."""
        running = self._running is not None and not self._running.is_warm_up
        return max(0, len(self._waiting) - (not running))

    def place(self, job: Job) -> int:
        """0 = running (or over), n = n jobs go first."""
        with self._changed:
            if job not in self._waiting:
                return 0
            running = self._running is not None and not self._running.is_warm_up
            return self._waiting.index(job) + running

    def dequeue(self, job: Job) -> None:
        """A job cancelled before its turn ends at once and never touches the device."""
        with self._changed:
            was_waiting = job in self._waiting
            if was_waiting:
                self._waiting.remove(job)
        if was_waiting:
            job.end()

    def close(self) -> None:
        """Cancel everything, end the thread, give the models' memory back."""
        with self._changed:
            self.is_closed = True
            jobs = [*self._waiting, *([self._running] if self._running else [])]
            self._changed.notify_all()
        for job in jobs:
            job.cancel()
        self._thread.join()

    def _serve(self) -> None:
        while job := self._next():
            error = self._run(job)
            with self._changed:
                self._running = None
            try:
                job.end(error)
            except Exception:
                _log.exception("the end of a job met an unexpected error")
            job = error = None  # an idle engine keeps no events alive
        self._drop_engine()

    def _next(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.is_closed)
            if self.is_closed:  # close() ends those that still wait
                return None
            self._running = self._waiting.pop(0)
            return self._running

    def _run(self, job: Job) -> EngineError | None:
        """The error comes back without its traceback, whose frames would keep models and caches in memory."""
        try:
            self._execute(job)
        except LoadCancelled:
            pass
        except EngineError as error:
            return type(error)(str(error))
        except BaseException as error:  # a bug must not end the engine's thread
            _log.exception("a request ended in an unexpected error")
            words = f"{type(error).__name__}: {str(error)[:300]}"
            return EngineError(f"The engine stumbled on this request ({words}); try another.")
        finally:
            if self.engine is not None:
                self.engine.on_progress(_ignore)
        return None

    def _execute(self, job: Job) -> None:
        for name, config in job.configs:
            if job.should_stop():
                return
            if config is None:
                job.start_clock()
            engine = self._engine_for(job, config) if config is not None else None
            events = job.work(engine, job.should_stop) if job.work else engine.run(config, job.should_stop)
            # A generator frozen by an exception would hold the cache through its frame; closing it frees that at once.
            with closing(events):
                for event in events:
                    job.publish(name, event)

    def _engine_for(self, job: Job, config: RunConfig):
        """The loaded engine if it is of this pair and precision; otherwise a new one, after closing the other."""

        def report(fraction: float, message: str) -> None:
            progress = Progress(message, fraction)
            job.report(progress)
            if job.is_warm_up:  # the jobs that wait for it have nothing else to show
                for waiting in tuple(self._waiting):
                    waiting.show(progress)

        precision = self.precision if config.precision == AUTO else config.precision
        is_loaded = self.engine is not None and self._loaded_as == (config.pair, precision)
        if self._fetch and not (is_loaded and self.engine.has(config.method)):
            self._fetch(config, report)
        if not is_loaded:
            self._drop_engine()
            self.engine = self._load(config, self.device, precision, report)
            self._loaded_as = config.pair, precision
        self.engine.on_progress(report)
        if job.is_cancelled:
            raise LoadCancelled
        return self.engine

    def _drop_engine(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()


def _ignore(fraction: float, message: str) -> None:
    pass


def _fetch(config: RunConfig, progress) -> None:
    """Download the models that the request's method needs and this machine lacks."""
    from engine.weights.catalogue import get_pair
    from engine.weights.store import fetch_pair, locate

    spec = get_pair(config.pair)
    if any(locate(model) is None for model in spec.models(config.method)):
        fetch_pair(spec, progress)


def _load(config: RunConfig, device: str, precision: str, progress):
    """Imported here so that the thread, not the page, waits for torch."""
    from engine.runtime.engine import load_engine

    return load_engine(config.pair, device, precision, progress)


_workers: dict[str, Worker] = {}
_lock = threading.Lock()


def get_worker(device: str | None = None) -> Worker:
    """The process-wide worker of a device."""
    with _lock:
        name = device or AUTO
        if name not in _workers or _workers[name].is_closed:
            _workers[name] = Worker(name)
        return _workers[name]
