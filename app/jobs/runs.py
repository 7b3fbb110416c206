"""Runs requests: one for each visitor at a time, equal runs shared, results cached. Knows no gradio."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.jobs.offer import Offer
from app.jobs.result_cache import RecordedRun, ResultCache
from app.jobs.updates import Report, Update, stream_live, stream_progress
from engine.config import RunConfig
from engine.errors import EngineError, Unavailable
from engine.runtime.job import Job, NamedConfigs, Subscriber, Work
from engine.trace.events import Progress, RunFinished, RunStarted
from engine.trace.trace import fold

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class PendingRequest:
    """One request of a visitor, from before there is a job to stop until its last update."""

    is_stopped: bool = False
    subscriber: Subscriber | None = None

    def stop(self) -> None:
        self.is_stopped = True
        if self.subscriber is not None:
            self.subscriber.leave()

    def follow(self, subscriber: Subscriber) -> Subscriber:
        """A Stop from now on, or meanwhile, leaves ``subscriber``."""
        self.subscriber = subscriber
        if self.is_stopped:
            subscriber.leave()
        return subscriber


class Runs:
    """The runs and experiments of all visitors on one worker. ``results``: of ended runs, by their exact settings."""

    def __init__(self, offer: Offer):
        self.offer, self.limits, self.worker = offer, offer.limits, offer.engine.worker
        self.worker.max_waiting = self.limits.queue
        if not self.worker.is_remote:
            self.worker.max_batch_size = self.limits.together
        self.results = ResultCache(self.limits.cached_runs)
        self._requests: dict[str, PendingRequest] = {}  # the newest of each visitor
        self._jobs: dict[NamedConfigs, Job] = {}  # those that equal requests may still join
        self._lock = threading.Lock()

    @property
    def most_requests(self) -> int:
        """Events of the page that may be open at once: of each visitor who runs or waits a press and its successor."""
        return 2 * (self.limits.queue + self.worker.most_running)

    def run(
        self, visitor: str, configs: NamedConfigs, again: bool = False, may_share: bool = False
    ) -> Iterator[Update | RecordedRun]:
        """Run ``configs`` one after the other, with no other request between them; at most six updates a second. With
        ``may_share`` other visitors' runs may share the passes of the first, and then the rest is left out.

        A cached result of exactly these configs comes as a RecordedRun instead, and so does the result of an equal
        job of another visitor once it is over, unless ``again`` requests new measurements. Closing the generator
        cancels the job unless other visitors wait for it. Raises EngineError with a sentence for the visitor.
        """
        with self._request(visitor) as request:
            for _, config in configs:
                self.offer.check(config)
            if not again and (recorded := self.results.get(configs)):
                yield recorded
                return
            yield Update(configs[0][0], progress=Progress("Starting the engine"))
            self.offer.check_models(configs)
            if request.is_stopped:
                return
            subscriber = request.follow(self._join_or_enqueue(configs, again, may_share))
            if subscriber.is_live:
                yield from stream_live(subscriber)
                if subscriber.job.is_late or subscriber.job.sharing_jobs:
                    yield Update(configs[0][0], is_late=subscriber.job.is_late, others=subscriber.job.sharing_jobs)
                return
            yield from stream_progress(subscriber)
            if subscriber.has_left:
                return
            recorded = _recorded(subscriber.job)
            if recorded is None:
                seconds = self.limits.seconds
                raise Unavailable(f"That run took longer than the {seconds} s it may; ask for fewer tokens.")
            yield recorded

    def experiment(
        self, visitor: str, work_units: Iterable[Work], config: RunConfig | None = None
    ) -> Iterator[Progress | Report]:
        """Work with the engine of ``config``, or without a model. Each unit is a job of its own, so that other visitors
        get a turn in between. Reports from before a Stop count.

        Raises EngineError with a sentence for the visitor; Unavailable when the time for experiments is up.
        """
        with self._request(visitor) as request:
            configs = (("lab", config),)
            if config is not None:
                self._check_lab(config)
                yield Progress("Starting the engine")
                self.offer.check_models(configs)
            seconds = self.limits.lab_seconds or self.limits.seconds
            late = Unavailable(f"An experiment may take up to {seconds:,} s here; its results so far stay.")
            until = time.monotonic() + seconds
            if request.is_stopped:
                return
            for work in work_units:
                left = until - time.monotonic()
                if left <= 0:  # otherwise units that are over in no time would go on for ever
                    raise late
                job = self.worker.submit(configs, work, left)
                subscriber = request.follow(job.subscribe())
                for update in stream_live(subscriber):
                    if update.progress:
                        yield update.progress
                    yield from (event for event in update.events if isinstance(event, Report))
                if job.is_late:
                    raise late
                if request.is_stopped:
                    return

    @contextmanager
    def _request(self, visitor: str) -> Iterator[PendingRequest]:
        """A second request of the same visitor replaces the first."""
        request = PendingRequest()
        with self._lock:
            earlier, self._requests[visitor] = self._requests.get(visitor), request
        if earlier is not None:
            earlier.stop()
        try:
            yield request
        except EngineError:
            raise
        except Exception as error:  # a bug must not leave a page that says it is running
            _log.exception("a run ended in an unexpected error")
            raise EngineError(f"The server stumbled on this run ({type(error).__name__}); try again.") from error
        finally:
            request.stop()
            with self._lock:
                if self._requests.get(visitor) is request:
                    del self._requests[visitor]

    def stop(self, visitor: str) -> bool:
        """End the visitor's request, if there is one; its job goes on only where other visitors wait for it."""
        with self._lock:
            request = self._requests.get(visitor)
        if request is not None:
            request.stop()
        return request is not None

    def is_busy(self, visitor: str) -> bool:
        """Whether this visitor's page has a run in progress, waiting, or about to be either."""
        with self._lock:
            return visitor in self._requests

    def _check_lab(self, config: RunConfig) -> None:
        if not self.limits.lab_seconds or self.worker.is_remote:
            raise Unavailable(
                "This page is shared and offers no experiments that need a model; run SpecLens on your own machine."
            )
        self.offer.check(config)

    def _join_or_enqueue(self, configs: NamedConfigs, again: bool, may_share: bool) -> Subscriber:
        with self._lock:
            job = None if again else self._jobs.get(configs)
            subscriber = job.join() if job else None
            if subscriber is None:
                job = self.worker.submit(configs, seconds=self.limits.seconds, on_end=self._record, may_share=may_share)
                self._jobs[configs] = job
                subscriber = job.subscribe()
            return subscriber

    def _record(self, job: Job) -> None:
        """At a job's end, on the engine's thread: cache the result; no further request may join the job."""
        recorded = _recorded(job)
        if recorded and not job.sharing_jobs:
            self.results.put(job.configs, recorded)
        with self._lock:
            if self._jobs.get(job.configs) is job:
                del self._jobs[job.configs]


def _recorded(job: Job) -> RecordedRun | None:
    """None unless every run has ended by itself; of a job that shared its passes the first."""
    names = [name for name, _ in job.configs][: 1 if job.sharing_jobs else None]
    events = {each: [event for name, event in job.log if name == each] for each in names}
    if not all(each and isinstance(each[0], RunStarted) and _is_complete(each[-1]) for each in events.values()):
        return None
    return RecordedRun({name: fold(each) for name, each in events.items()}, time.time())


def _is_complete(event: object) -> bool:
    return isinstance(event, RunFinished) and event.reason != "cancelled"
