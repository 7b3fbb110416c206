"""Runs requests: one for each visitor at a time, equal runs shared, results cached. Knows no gradio."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

from app.jobs.offer import Offer
from app.jobs.request import VisitorRequest
from app.jobs.result_cache import RecordedRun, ResultCache
from app.jobs.run_numbers import RunNumbers
from app.jobs.updates import Fold, Report, Update, stream_live, stream_progress
from engine.config import RunConfig
from engine.errors import EngineError, QueueFull, Unavailable
from engine.runtime.job import Job, NamedConfigs, Subscriber, Work
from engine.trace.events import Progress

SECONDS_TO_RELOAD = 20.0  # for which a run goes on after its page has closed
SECONDS_BEFORE_OTHERS = 4.0  # the same, if others wait for the device
NO_EXPERIMENTS = (
    "This page is shared and offers no experiments that need a model: on your own machine `make run` has the same "
    "page, and `python -m engine answer FILE.jsonl --users 1,8,32` answers in a terminal."
)
MOST_RELOADS = 64  # pages whose newest run a reload brings back
_log = logging.getLogger(__name__)


class Runs:
    """The runs and experiments of all visitors on one worker. ``results`` holds ended runs by their exact settings."""

    def __init__(self, offer: Offer):
        self.offer, self.limits, self.worker = offer, offer.limits, offer.engine.worker
        self.worker.max_waiting = self.limits.queue
        if not self.worker.is_remote:
            self.worker.max_batch_size = self.limits.together
        self.results, self.numbers = ResultCache(self.limits.cached_runs), RunNumbers(self.worker)
        self._requests: dict[str, VisitorRequest] = {}  # the newest of each visitor
        self._known: ResultCache[VisitorRequest] = ResultCache(MOST_RELOADS)  # by their keys
        self._jobs: dict[NamedConfigs, tuple[Job, Fold]] = {}  # those that equal requests may still join
        self._lock = threading.Lock()

    @property
    def most_requests(self) -> int:
        """The most events that may be open at once: two for each visitor who runs or waits."""
        return 2 * (self.limits.queue + self.worker.most_running)

    @property
    def offers_experiments(self) -> bool:
        """Whether visitors may start experiments that need a model."""
        return bool(self.limits.lab_seconds) and not self.worker.is_remote

    # ── requests ──

    def open(self, visitor: str, address: str | None = None) -> VisitorRequest:
        """Registers a request; an earlier one of the same visitor ends. To be closed by the caller. Raises QueueFull
        if the requests over HTTP from this address are as many as one may have."""
        request, most = VisitorRequest(visitor, address), self.limits.per_address
        with self._lock:
            if address and sum(each.address == address for each in self._requests.values()) >= most:
                raise QueueFull(f"{most} requests from your address are open already. Let one end, then try again.")
            earlier, self._requests[visitor] = self._requests.get(visitor), request
        if earlier is not None:
            earlier.is_replaced = True
            earlier.stop()
        return request

    def close(self, request: VisitorRequest) -> None:
        request.stop()
        request.over.set()
        job = request.job
        if job and job.is_done and (not self.limits.cached_runs or self.results.get(job.configs)):
            self._known.drop(request.key)  # a reload finds its result there, or this server keeps none
        with self._lock:
            if self._requests.get(request.visitor) is request:
                del self._requests[request.visitor]

    @contextmanager
    def request(self, visitor: str, address: str | None = None) -> Iterator[VisitorRequest]:
        """Opens a request, and closes it at the end."""
        request = self.open(visitor, address)
        try:
            yield request
        finally:
            self.close(request)

    def stop(self, visitor: str) -> bool:
        """Ends the visitor's request, if there is one. Its job goes on only where other visitors wait for it."""
        with self._lock:
            request = self._requests.get(visitor)
        if request is not None:
            request.was_stopped = True
            request.stop()
        return request is not None

    def leave(self, visitor: str) -> None:
        """Notes that the visitor's page is gone. Its request ends unless the page is back within SECONDS_TO_RELOAD, or
        earlier where others wait."""
        with self._lock:
            request = self._requests.get(visitor)
            if request is None or request.is_left:
                return
            request.is_left = True
        threading.Thread(target=self._close_later, args=[request], daemon=True).start()

    def _close_later(self, request: VisitorRequest) -> None:
        start = time.monotonic()
        while not request.is_over and (elapsed := time.monotonic() - start) < SECONDS_TO_RELOAD:
            if elapsed >= SECONDS_BEFORE_OTHERS and self.worker.waiting:
                break
            time.sleep(0.05)
        self.close(request)

    def find(self, key: str) -> VisitorRequest | None:
        """Returns the request with this key, if it has run or waited here lately."""
        request = self._known.get(key)
        return request if request and request.config else None

    def resume(self, earlier: VisitorRequest, visitor: str) -> VisitorRequest:
        """Registers a request that goes on with the job of ``earlier``: its page was reloaded. The caller closes it."""
        request = self.open(visitor)
        request.take_over(earlier)
        self.close(earlier)
        self._known.put(request.key, request)
        return request

    def is_busy(self, visitor: str) -> bool:
        """Returns whether this visitor's page has a run that is in progress, waiting, or about to be."""
        with self._lock:
            return visitor in self._requests

    # ── runs ──

    def run(
        self, request: VisitorRequest, configs: NamedConfigs, again: bool = False, may_share: bool = False
    ) -> Iterator[Update | RecordedRun]:
        """Runs ``configs`` one after the other, with no other request between them, and yields at most six updates a
        second. With ``may_share`` other visitors' runs may share the passes of the first, and then the rest is left
        out.

        A cached result of exactly these configs comes as a RecordedRun instead, and so does the result of an equal
        job of another visitor once it is over, unless ``again`` requests new measurements. Closing the
        request cancels the job unless other visitors wait for it. Raises EngineError with a sentence for the visitor.
        """
        with _counting_refusals(self.numbers):
            for _, config in configs:
                self.offer.check(config)
            if not again and (recorded := self.results.get(configs)):
                yield recorded
                return
            yield Update(configs[0][0], progress=Progress("Starting the engine"), fold=Fold(configs))
            self.offer.check_models(configs)
            if request.is_stopped:
                return
            request.follow(*self._join_or_enqueue(configs, again, may_share))
            self._known.put(request.key, request)
            yield from self._updates(request)

    def follow(self, request: VisitorRequest) -> Iterator[Update | RecordedRun]:
        """Yields the updates of a request from ``resume``, from the first round on."""
        with _counting_refusals(self.numbers):
            yield from self._updates(request)

    def _updates(self, request: VisitorRequest) -> Iterator[Update | RecordedRun]:
        subscriber, fold = request.subscriber, request.fold
        assert subscriber is not None and fold is not None  # it follows a job
        job = subscriber.job
        if subscriber.is_live:
            yield from request.updates(stream_live(subscriber, fold))
            if job.timed_out or job.sharing_jobs:
                yield Update(job.configs[0][0], fold=fold, timed_out=job.timed_out, others=job.sharing_jobs)
            return
        yield from request.updates(stream_progress(subscriber, fold))
        if subscriber.has_left:
            return
        recorded = _results_of(job, fold)
        if recorded is None:
            seconds = self.limits.seconds
            raise Unavailable(f"That run was stopped after {seconds} s. Ask for fewer tokens.")
        yield recorded

    def experiment(
        self, request: VisitorRequest, work_units: Iterable[Work], config: RunConfig | None = None
    ) -> Iterator[Progress | Report]:
        """Runs work with the engine of ``config``, or without a model. Each unit is a job of its own, so that other
        visitors get a turn in between. Reports from before a Stop count.

        Raises EngineError with a sentence for the visitor; Unavailable when the time for experiments is up.
        """
        with _counting_refusals(self.numbers):
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
                job = self.worker.submit(configs, work, seconds=left, on_end=self.numbers.end_experiment)
                subscriber = request.follow(job.subscribe())
                for update in request.updates(stream_live(subscriber)):
                    if update.progress:
                        yield update.progress
                    yield from (event for event in update.events if isinstance(event, Report))
                if job.timed_out:
                    raise late
                if request.is_stopped:
                    return

    def _check_lab(self, config: RunConfig) -> None:
        if not self.offers_experiments:
            raise Unavailable(NO_EXPERIMENTS)
        self.offer.check(config)

    def _join_or_enqueue(self, configs: NamedConfigs, again: bool, may_share: bool) -> tuple[Subscriber, Fold]:
        with self._lock:
            job, fold = (None, None) if again else self._jobs.get(configs, (None, None))
            subscriber = job.join() if job and job.may_share <= may_share else None  # one that shares is not alone
            if subscriber is None:
                fold = Fold(configs)
                record, seconds = partial(self._record, fold), self.limits.seconds
                job = self.worker.submit(configs, seconds=seconds, on_end=record, may_share=may_share)
                self._jobs[configs] = job, fold
                subscriber = job.subscribe()
            return subscriber, cast(Fold, fold)

    def _record(self, fold: Fold, job: Job) -> None:
        """Caches the result at a job's end, on the engine's thread. From now on no request may join the job."""
        self.numbers.end(job)
        recorded = _results_of(job, fold)
        if recorded and not job.sharing_jobs:
            self.results.put(job.configs, recorded)
        with self._lock:
            if self._jobs.get(job.configs, (None,))[0] is job:
                del self._jobs[job.configs]


def _results_of(job: Job, fold: Fold) -> RecordedRun | None:
    """Returns the results of a job that ended by itself, else None. If the job shared its passes, only its first run
    counts."""
    fold.advance(job)
    names = [name for name, _ in job.configs][: 1 if job.sharing_jobs else None]
    traces = {name: trace for name, trace in fold.traces().items() if trace and name in names}
    is_complete = all(trace.finished and trace.finished.reason != "cancelled" for trace in traces.values())
    return RecordedRun(traces, time.time()) if is_complete and len(traces) == len(names) else None


@contextmanager
def _counting_refusals(numbers: RunNumbers):
    """Counts a refusal, and makes any other error one, because a bug must not leave a page that says it is running."""
    try:
        yield
    except EngineError as error:
        numbers.refuse(error)
        raise
    except Exception as error:
        _log.exception("a run ended in an unexpected error")
        raise EngineError(f"An unexpected error ended this run ({type(error).__name__}); try again.") from error
