"""Accepts run requests: limits, queue, equal runs shared, results cached. Knows no gradio."""

import difflib
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from app.jobs.engine_facade import EngineFacade, MethodCosts, Models, Pair
from app.jobs.result_cache import RecordedRun, ResultCache
from app.jobs.updates import Report, Update, stream_live, stream_progress
from app.jobs.zero_gpu import ZeroGpuWorker
from app.limits import PAIR, Limits
from app.server.hosting import hosted, shared_gpu
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.runtime.job import Job, NamedConfigs, Subscriber, Work
from engine.trace.events import Progress, RunFinished, RunStarted
from engine.trace.trace import fold

__all__ = ["EngineFacade", "Limits", "Models", "NamedConfigs", "Pair", "Progress", "RecordedRun", "Report", "Service",
           "State", "Update", "Work", "baseline_of", "is_baseline", "with_baseline"]  # fmt: skip

_log = logging.getLogger(__name__)
_SECONDS_KNOWN = 30.0  # every visitor who opens the page asks which pairs can run
_SECONDS_FOR_A_VISITOR = 4.0  # until the first visitor; then the model is loaded without one
_SECONDS_TO_DRAW = 0.5  # of a page, after its first question


@dataclass(frozen=True)
class State:
    """Of the engine, for every visitor: ``kind`` is "asleep", "loading", "ready" or "busy"; ``together``: runs under
    way."""

    kind: str
    device: str | None = None
    precision: str | None = None
    waiting: int = 0
    together: int = 0
    progress: Progress | None = None


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


def is_baseline(config: RunConfig) -> bool:
    return config.method == "none" or config.gamma == 0


def baseline_of(config: RunConfig) -> RunConfig:
    """The same request without drafting: the denominator of a speedup."""
    return replace(config, method="none", gamma=0)


def with_baseline(config: RunConfig) -> NamedConfigs:
    """The request, then its baseline where it drafts."""
    return (("run", config),) + (() if is_baseline(config) else (("baseline", baseline_of(config)),))


class Service:
    def __init__(self, engine: EngineFacade | None = None, limits: Limits | None = None):
        self.engine = engine or EngineFacade()
        self.limits = limits or Limits.from_env()
        self.pairs = {pair.name: pair for pair in self.engine.pairs(self.limits.pairs)}
        self.pair = self.limits.pairs[0] if self.limits.pairs else PAIR
        self.worker = ZeroGpuWorker() if shared_gpu() else self.engine.worker()
        self.worker.max_waiting = self.limits.queue
        if not self.worker.is_remote:
            self.worker.most_together = self.limits.together
        self.results = ResultCache(self.limits.cached_runs)
        self._requests: dict[str, PendingRequest] = {}  # the newest of each visitor
        self._jobs: dict[NamedConfigs, Job] = {}  # those that equal requests may still join
        self._lock = threading.Lock()
        self._unusable: tuple[set[str], float] = (set(), 0.0)
        self._is_warming_up = False
        self._has_visitor = threading.Event()  # a page requests the state as soon as it is open

    @property
    def most_requests(self) -> int:
        """Events of the page that may be open at once: of each visitor who runs or waits a press and its successor."""
        return 2 * (self.limits.queue + self.worker.most_running)

    # ── on offer ──

    def warm(self) -> None:
        """Load the model in the background, if its weights are here; otherwise the first run fetches them (a hosted
        page fetches them now).

        Because loading would slow down the first page, it begins when that page is open, or a few seconds after the
        start. A failure is not lost: the first run meets it again and shows it.
        """

        def load():
            if self._has_visitor.wait(_SECONDS_FOR_A_VISITOR):
                time.sleep(_SECONDS_TO_DRAW)
            try:
                if self.worker.running or self.engine.device():  # a run was quicker, and loads the model itself
                    return
                if hosted() or self.engine.has_weights(self.pair):
                    config = RunConfig("Hello", pair=self.pair, max_new_tokens=2)
                    job = self.worker.submit([("warm-up", config)], is_warm_up=True)
                    job.wait()
                    job.raise_error()
            except EngineError as error:
                print(f"The model could not be loaded yet: {error}", flush=True)
            finally:
                self._is_warming_up = False

        if self.worker.is_remote:
            return
        self._is_warming_up = True
        threading.Thread(target=load, name="speclens-warm-up", daemon=True).start()

    @property
    def titles(self) -> dict[str, str]:
        """The title of each pair by its name."""
        return {name: pair.title for name, pair in self.pairs.items()}

    def methods(self, pair: str) -> tuple[str, ...]:
        return self._offered(pair).methods

    def method_costs(self, pair: str) -> dict[str, MethodCosts]:
        """c and memory of each method here; empty until an engine is loaded, because it takes torch to know them."""
        return self.engine.method_costs(self._offered(pair).name) if self.engine.device() else {}

    def models(self, pair: str, method: str) -> Models:
        return self.engine.models(self._offered(pair).name, method)

    def problems(self, pair: str, method: str = AUTO, precision: str = AUTO) -> list[str]:
        """Why this choice cannot run here, in sentences; nothing is loaded for it."""
        offered = self._offered(pair)
        if method not in (AUTO, *offered.methods):
            return [f"{pair} has no method {method[:40]!r}; choose from {', '.join((AUTO, *offered.methods))}."]
        if precision != AUTO and precision not in self.engine.precisions():
            return [f"This server's device does not offer the precision {precision[:40]!r}; leave it on auto."]
        return self.engine.problems(pair, method, precision, self._may_fetch(pair))

    def unusable(self) -> set[str]:
        """The pairs that cannot run here with any method, at most half a minute old."""
        names, until = self._unusable
        if time.monotonic() >= until:
            names = {name for name in self.pairs if self.problems(name)}
            self._unusable = names, time.monotonic() + _SECONDS_KNOWN
        return names

    def to_fetch(self, pair: str) -> int:
        """Bytes that the first run of a pair would download."""
        return self.engine.absent_bytes(pair) if self._may_fetch(pair) else 0

    def _may_fetch(self, pair: str) -> bool:
        return self.limits.fetch or pair == self.pair

    def _offered(self, name: str) -> Pair:
        """Because a visitor must not name a folder or a repository of the Hub, only the listed pairs are allowed."""
        if name not in self.pairs:
            near = difflib.get_close_matches(name.lower(), self.pairs, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(self.pairs)}."
            raise BadInput(f"This page does not offer the pair {name[:80]!r}; {hint}")
        return self.pairs[name]

    def state(self) -> State:
        """For the chip that every visitor sees. Cheap: it waits for no lock of the engine."""
        self._has_visitor.set()
        running, waiting = self.worker.running, self.worker.waiting
        progress = running.progress if running else None
        if self._is_warming_up and progress is None:
            progress = Progress("Loading the model")
        if progress:
            return State("loading", waiting=waiting, progress=progress)
        device, precision = self.engine.device(), self.engine.precision()
        kind = "busy" if running else "ready" if device else "asleep"
        return State(kind, device, precision, waiting, self.worker.together)

    # ── runs ──

    def run(
        self, visitor: str, configs: NamedConfigs, again: bool = False, may_share: bool = False
    ) -> Iterator[Update | RecordedRun]:
        """Run ``configs`` one after the other, with no other request between them; at most six updates a second. With
        ``may_share`` other visitors' runs may share the passes of the first, and then the rest is left out.

        A cached result of exactly these configs comes as a RecordedRun instead, and so does the result of an equal
        job of another visitor once it is over, unless ``again`` requests new measurements. Closing the generator
        cancels the job unless other visitors wait for it. Raises EngineError with a sentence for the visitor.
        """
        self._has_visitor.set()
        with self._request(visitor) as request:
            for _, config in configs:
                self._check(config)
            if not again and (recorded := self.results.get(configs)):
                yield recorded
                return
            yield Update(configs[0][0], progress=Progress("Starting the engine"))
            self._check_models(configs)
            if request.is_stopped:
                return
            subscriber = request.follow(self._join_or_enqueue(configs, again, may_share))
            if subscriber.is_live:
                yield from stream_live(subscriber)
                if subscriber.job.is_late or subscriber.job.others:
                    yield Update(configs[0][0], is_late=subscriber.job.is_late, others=subscriber.job.others)
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
                self._check_models(configs)
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

    def _check(self, config: RunConfig) -> None:
        self.limits.check(config)
        self._offered(config.pair)

    def _check_lab(self, config: RunConfig) -> None:
        if not self.limits.lab_seconds or self.worker.is_remote:
            raise Unavailable(
                "This page is shared and offers no experiments that need a model; run SpecLens on your own machine."
            )
        self._check(config)

    def _check_models(self, configs: NamedConfigs) -> None:
        """Checks that need the models' files; loads nothing."""
        config = configs[0][1]
        for _, each in configs:
            if reasons := self.problems(each.pair, each.method, each.precision):
                raise Unavailable(" ".join(reasons))
        count = self.engine.prompt_tokens(config.pair, config.prompt + (config.system or ""))
        if count and count > self.limits.prompt_tokens:
            raise BadInput(
                f"The prompt has {count:,} tokens; this page takes up to {self.limits.prompt_tokens:,}. Shorten it."
            )

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
        if recorded and not job.others:
            self.results.put(job.configs, recorded)
        with self._lock:
            if self._jobs.get(job.configs) is job:
                del self._jobs[job.configs]


def _recorded(job: Job) -> RecordedRun | None:
    """None unless every run has ended by itself; of a job that shared its passes the first."""
    names = [name for name, _ in job.configs][: 1 if job.others else None]
    events = {each: [event for name, event in job.log if name == each] for each in names}
    if not all(each and isinstance(each[0], RunStarted) and _is_complete(each[-1]) for each in events.values()):
        return None
    return RecordedRun({name: fold(each) for name, each in events.items()}, time.time())


def _is_complete(event: object) -> bool:
    return isinstance(event, RunFinished) and event.reason != "cancelled"
