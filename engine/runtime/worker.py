"""Runs jobs on the one thread that owns a device and its models, first come first served.

Because inference mode and OpenMP pools belong to a thread, and two requests on one device would slow each other down,
everything that computes is a job in this queue. Jobs that may share their passes run together.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, cast

from engine.config import AUTO, MAX_WAITING, RunConfig
from engine.errors import BadInput, EngineError, QueueFull, quantity
from engine.runtime.job import Job, LoadCancelled, Work
from engine.trace.events import Progress
from engine.trace.speedup_model import MOST_BY_DEFAULT

_log = logging.getLogger(__name__)


class Worker:
    """Jobs wait in one queue. One that may share passes runs beside others of its pair, up to ``max_batch_size`` (None:
    as many as suit the device); any other is a batch of one that admits nothing beside it."""

    is_remote = False  # whether the engine is in another process, where work cannot be sent

    def __init__(self, device=AUTO, precision=AUTO, loader=None, threads: int = 1):
        self.device, self.precision, self.max_waiting = device, precision, MAX_WAITING
        self.max_batch_size: int | None = None
        self.engine: Any = None  # an Engine, once a run has loaded one
        self._loaded_as: tuple[str, str] | None = None  # the pair and precision that the loaded engine was requested by
        self._load, self._fetch = loader or _load, None if loader else _fetch
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._changed = threading.Condition()
        self.is_closed = False
        serve: dict[str, Any] = {"target": self._serve, "name": f"engine-{device}", "daemon": True}
        self._threads = [threading.Thread(**serve) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, configs: Sequence[tuple[str, RunConfig | None]], work: Work | None = None, **options: Any) -> Job:
        """Puts a job into the queue; the arguments are passed to `Job`. Raises QueueFull when the queue is full."""
        job = Job(self, configs, work, **options)
        with self._changed:
            if self.is_closed:
                raise BadInput("The engine has been closed; start it again.")
            if len(self._waiting) >= self.max_waiting:
                many = f"{quantity(self.max_waiting, 'run')} {'is' if self.max_waiting == 1 else 'are'}"
                raise QueueFull(f"The queue is full: {many} waiting. Try again in a minute.")
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    @property
    def running(self) -> Job | None:
        """One of the jobs under way."""
        running = self._running[:1]
        return running[0] if running else None

    @property
    def most_running(self) -> int:
        """How many jobs can be under way at once."""
        return self.max_batch_size or MOST_BY_DEFAULT

    @property
    def batch_size(self) -> int:
        """How many jobs are under way."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many jobs have others before them."""
        return max(0, len(self._waiting) - (not self._is_occupied()))

    def _is_occupied(self) -> bool:
        return any(not job.is_warm_up for job in self._running)

    def place(self, job: Job) -> int:
        """Counts the jobs that go first; 0 for one that is running or over."""
        with self._changed:
            if job not in self._waiting:
                return 0
            return self._waiting.index(job) + self._is_occupied()

    def dequeue(self, job: Job) -> None:
        """Ends a job that is cancelled before its turn at once, so that it never touches the device."""
        with self._changed:
            was_waiting = job in self._waiting
            if was_waiting:
                self._waiting.remove(job)
        if was_waiting:
            job.end()

    def close(self) -> None:
        """Cancels everything, ends the thread and gives the models' memory back."""
        with self._changed:
            self.is_closed = True
            jobs = [*self._waiting, *self._running]
            self._changed.notify_all()
        for job in jobs:
            job.cancel()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while job := self._next():
            if job.work is not None or self.is_remote:
                self._end(job, self._work(job))
            else:
                self._run(job)
            job = None  # an idle engine keeps no events alive
        self._drop_engine()

    def _next(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.is_closed)
            if self.is_closed:  # close() ends those that still wait
                return None
            job = self._waiting.pop(0)
            self._running.append(job)
            return job

    def _end(self, job: Job, error: EngineError | None) -> None:
        with self._changed:
            self._running.remove(job)
        try:
            job.end(error)
        except Exception:
            _log.exception("the end of a job met an unexpected error")

    def _work(self, job: Job) -> EngineError | None:
        try:
            self._execute(job)
        except BaseException as error:  # a bug must not end the engine's thread
            return _without_traceback(error)
        return None

    def _run(self, first: Job) -> None:
        """Runs a job and, if it may share its passes, the jobs that join it, until none is left."""
        runs = bug = None
        try:
            with self._reporting(first, first.configs[0][1]) as engine:
                # After the load, which imports torch by way of engine.runtime.engine, as the page's threads do. Two
                # that enter by different modules at once may each find the other's half imported.
                from engine.runtime.shared_runs import SharedRuns

                limit = (self.max_batch_size or engine.best_batch()) if first.may_share else 1
                runs = SharedRuns(engine, limit, self._reporting)
            runs.add(first)
            while runs:
                self._admit(runs)
                for job, error in runs.step():
                    self._end(job, _without_traceback(error) if error else None)
        except BaseException as error:
            bug = _without_traceback(error)
        if runs is not None:
            runs.close()  # first, so that memory is free once a reader sees the end
        for job in tuple(self._running):
            self._end(job, bug)

    def _admit(self, runs) -> None:
        """Lets jobs take part in the order of the queue, up to the first that cannot."""
        while job := self._next_beside(runs):
            try:
                if not runs.add(job) and not self._back_to_the_queue(job):
                    self._end(job, None)
            except (Exception, LoadCancelled) as error:
                self._end(job, _without_traceback(error))

    def _next_beside(self, runs) -> Job | None:
        with self._changed:
            job = self._waiting[0] if self._waiting and not self.is_closed else None
            if job is None or not job.may_share or not self._is_loaded_for(job.configs[0][1]) or not runs.takes(job):
                return None
            self._running.append(self._waiting.pop(0))
            return job

    def _back_to_the_queue(self, job: Job) -> bool:
        """Lets the job wait again, as the first. Returns False for a cancelled one, which would stay for good."""
        with self._changed:
            if self.is_closed or job.is_cancelled:
                return False
            self._running.remove(job)
            self._waiting.insert(0, job)
            return True

    def _execute(self, job: Job) -> None:
        """Executes the job's piece of work, with the engine of its first config if it has one."""
        name, config = job.configs[0]
        if config is None:
            job.start_clock()
        # A generator frozen by an exception would hold the cache through its frame; closing it frees that at once.
        with self._reporting(job, config) as engine, closing(cast(Work, job.work)(engine, job.should_stop)) as results:
            for result in results:
                job.publish(name, result)

    @contextmanager
    def _reporting(self, job: Job, config: RunConfig | None) -> Iterator:
        """Yields the engine for a config, None without one. Inside the block it reports its progress to the job."""
        try:
            yield None if config is None else self._engine_for(job, config)
        finally:
            if self.engine is not None:
                self.engine.on_progress(lambda fraction, message: None)

    def _engine_for(self, job: Job, config: RunConfig):
        """Returns the loaded engine if it is of this pair and precision; else a new one, after closing the other."""

        def report(fraction: float, message: str) -> None:
            progress = Progress(message, fraction)
            job.report(progress)
            if job.is_warm_up:  # the jobs that wait for it have nothing else to show
                for waiting in tuple(self._waiting):
                    waiting.show(progress)

        is_loaded = self._is_loaded_for(config)
        if self._fetch and not (is_loaded and self.engine.has(config.method)):
            self._fetch(config, report)
        if not is_loaded:
            self._drop_engine()
            precision = self._precision(config)
            self.engine = self._load(config, self.device, precision, report)
            self._loaded_as = config.pair, precision
        self.engine.on_progress(report)
        if job.is_cancelled:
            raise LoadCancelled
        return self.engine

    def _precision(self, config: RunConfig) -> str:
        return self.precision if config.precision == AUTO else config.precision

    def _is_loaded_for(self, config: RunConfig) -> bool:
        return self.engine is not None and self._loaded_as == (config.pair, self._precision(config))

    def _drop_engine(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()


def _without_traceback(error: BaseException) -> EngineError | None:
    """Returns the error in a sentence, None for a cancelled job. It has no frames, which would keep memory."""
    if isinstance(error, LoadCancelled):
        return None
    if isinstance(error, EngineError):
        return type(error)(str(error))
    _log.error("a request ended in an unexpected error", exc_info=error)
    words = f"{type(error).__name__}: {str(error)[:300]}"
    return EngineError(f"An unexpected error ended this request ({words}); try another.")


def _fetch(config: RunConfig, progress) -> None:
    """Downloads the models that the request's method needs and this machine lacks."""
    from engine.weights.catalogue import get_pair
    from engine.weights.store import fetch_pair, locate

    spec = get_pair(config.pair)
    if any(locate(model) is None for model in spec.models(config.method)):
        fetch_pair(spec, progress)


def _load(config: RunConfig, device: str, precision: str, progress):
    """Loads an engine; its module is imported here so that the thread, not the page, waits for torch."""
    from engine.runtime.engine import load_engine

    return load_engine(config.pair, device, precision, progress)


_workers: dict[str, Worker] = {}
_lock = threading.Lock()


def get_worker(device: str | None = None) -> Worker:
    """Returns the process-wide worker of a device."""
    with _lock:
        name = device or AUTO
        if name not in _workers or _workers[name].is_closed:
            _workers[name] = Worker(name)
        return _workers[name]
