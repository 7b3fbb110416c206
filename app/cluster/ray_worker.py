"""Sends runs to the engine replicas of a Ray Serve application, and brings their events back."""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, replace

from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from app.jobs.engine_facade import EngineFacade, Hardware
from app.jobs.remote import RemoteWorker
from engine.config import AUTO
from engine.errors import EngineError, Unavailable
from engine.runtime.job import Job, NamedConfigs
from engine.trace.events import Progress, RunFinished
from engine.weights import preflight
from engine.weights.catalogue import get_pair

_RAY_ERRORS = (RayError, RayServeException)
_SECONDS_BETWEEN_TRIES = 5.0  # to learn an engine's hardware
_LOST = "The machine that ran this has stopped in mid-run. What came so far stays; press Run to start it again."


@dataclass(frozen=True)
class ReplicaRequest:
    """What a replica needs to know of a job."""

    configs: NamedConfigs
    seconds: float | None
    may_share: bool


@dataclass(frozen=True)
class News:
    """The events of a job since the last item. ``elapsed``: seconds since the replica got the request;
    ``others`` and ``timed_out`` as in `Job`; ``replica``: its name."""

    entries: list[tuple[str, object]]
    elapsed: float
    replica: str
    progress: Progress | None = None
    others: int = 0
    timed_out: bool = False
    error: EngineError | None = None


class RayWorker(RemoteWorker):
    """``threads``: runs that are on their way at once; the others wait here, where every visitor sees their place."""

    def __init__(self, engines: DeploymentHandle, threads: int):
        self._engines, self._streams = engines, {}
        super().__init__(device="ray", threads=threads)

    def dequeue(self, job: Job) -> None:
        """Also cancels the run over there, because this side only listens between two items."""
        super().dequeue(job)
        if stream := self._streams.get(job):
            _cancel(stream)

    def _results(self, job: Job) -> Generator[tuple[str, object], None, None]:
        began, network = time.monotonic(), None
        job.show(Progress("Waiting for an engine"))
        request = ReplicaRequest(job.configs, job.seconds, job.may_share)
        stream = self._engines.options(stream=True).run.remote(request)
        self._streams[job] = stream
        if job.is_cancelled:  # since it left the queue: `dequeue` found no stream
            _cancel(stream)
        try:
            for news in stream:
                if network is None:
                    network = max(0.0, time.monotonic() - began - news.elapsed)
                job.sharing_jobs, job.timed_out = max(job.sharing_jobs, news.others), news.timed_out
                where = {"replica": news.replica, "network_seconds": round(network, 4)}
                for name, event in news.entries:
                    is_end = isinstance(event, RunFinished)
                    yield name, replace(event, extra=event.extra | where) if is_end else event
                if news.progress:
                    yield job.name, news.progress
                if news.error:
                    yield job.name, news.error
        except _RAY_ERRORS as error:
            if not job.should_stop():  # otherwise `dequeue` has cancelled it
                raise _cause(error) from error
        finally:
            self._streams.pop(job, None)
            _cancel(stream)


def _cancel(stream: DeploymentResponseGenerator) -> None:
    """Does nothing to a request that no engine took: Ray 2.60 raises that failure again on `cancel`."""
    with suppress(*_RAY_ERRORS):
        stream.cancel()


def _cause(error: Exception) -> Exception:
    """Returns the exception that a replica raised, because Ray puts a traceback into its message; Unavailable where
    the replica itself, or the way to it, was lost."""
    cause = error.cause if isinstance(error, RayTaskError) else None
    is_own = isinstance(cause, Exception) and not isinstance(cause, _RAY_ERRORS)
    return cause if is_own else Unavailable(_LOST)


class RayFacade(EngineFacade):
    """The engines of a cluster in place of this process's own. The first engine that answers says what their hardware
    is."""

    def __init__(self, worker: RayWorker, engines: DeploymentHandle):
        super().__init__(worker)
        self._hardware: Hardware | None = None
        threading.Thread(target=self._learn_hardware, args=(engines,), name="hardware", daemon=True).start()

    def _learn_hardware(self, engines: DeploymentHandle) -> None:
        """Learns the hardware on a thread of its own, because the first engine answers once its model is loaded."""
        while self._hardware is None:
            try:
                self._hardware = engines.hardware.remote().result()
            except _RAY_ERRORS:
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def device(self) -> str:
        return "a cluster"

    def precision(self) -> None:
        return None  # each engine has its own

    def hardware(self) -> Hardware | None:
        return self._hardware

    def problems(self, pair: str, method: str, precision: str, fetch: bool) -> list[str]:
        """Leaves memory out, because the page's own says nothing about an engine's: that one refuses in a sentence."""
        needed = None if method == AUTO else method
        return preflight.check_pair(get_pair(pair), needed, available_bytes=sys.maxsize, fetch=fetch)
