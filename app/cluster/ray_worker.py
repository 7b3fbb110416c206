"""Sends runs to the engine replicas of a Ray Serve application, and brings their events back."""

import time
from collections.abc import Generator
from dataclasses import dataclass, replace

from ray.exceptions import RayError, TaskCancelledError
from ray.serve.exceptions import RayServeException, RequestCancelledError
from ray.serve.handle import DeploymentHandle

from app.jobs.engine_facade import EngineFacade
from app.jobs.remote import RemoteWorker
from engine.errors import EngineError, Unavailable
from engine.runtime.job import Job, NamedConfigs
from engine.trace.events import Progress, RunFinished

_LOST = "The machine that ran this has stopped in mid-run. What came so far stays; press Run to start it again."


@dataclass(frozen=True)
class Request:
    """What a replica needs to know of a job."""

    configs: NamedConfigs
    seconds: float | None
    may_share: bool


@dataclass(frozen=True)
class News:
    """The events of a job since the last item. ``elapsed``: seconds since the replica got the request;
    ``others`` and ``is_late`` as in `Job`; ``replica``: its name."""

    entries: list[tuple[str, object]]
    elapsed: float
    replica: str
    progress: Progress | None = None
    others: int = 0
    is_late: bool = False
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
            stream.cancel()

    def _results(self, job: Job) -> Generator[tuple[str, object], None, None]:
        began, network = time.monotonic(), None
        job.show(Progress("Waiting for an engine"))
        request = Request(job.configs, job.seconds, job.may_share)
        stream = self._engines.options(stream=True).run.remote(request)
        self._streams[job] = stream
        try:
            for news in stream:
                if network is None:
                    network = max(0.0, time.monotonic() - began - news.elapsed)
                job.others, job.is_late = max(job.others, news.others), news.is_late
                where = {"replica": news.replica, "network_seconds": round(network, 4)}
                for name, event in news.entries:
                    is_end = isinstance(event, RunFinished)
                    yield name, replace(event, extra=event.extra | where) if is_end else event
                if news.progress:
                    yield job.name, news.progress
                if news.error:
                    yield job.name, news.error
        except (RequestCancelledError, TaskCancelledError):
            pass  # by `dequeue`
        except (RayError, RayServeException) as error:
            if not job.should_stop():
                raise Unavailable(_LOST) from error
        finally:
            self._streams.pop(job, None)
            stream.cancel()


class RayFacade(EngineFacade):
    """The engines of a cluster in place of this process's own."""

    def __init__(self, worker: RayWorker):
        self._worker = worker

    def worker(self) -> RayWorker:
        return self._worker

    def device(self) -> str:
        return "a cluster"
