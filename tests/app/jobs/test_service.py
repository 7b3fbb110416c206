"""The service without a page: one queue, equal runs shared, results cached, limits, refusals before a load."""

import gc
import threading
import time
import weakref
from unittest.mock import Mock

import pytest
from fake_worker import FakeEngine, FakeWorker, recorded, wait_for

from app.jobs.baseline import with_baseline
from app.jobs.engine_facade import EngineFacade
from app.jobs.result_cache import RecordedRun, ResultCache
from app.jobs.service import Service
from app.jobs.updates import Update
from app.server.limits import Limits
from engine.config import RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.runtime.worker import get_worker
from engine.trace.costs import CostModel
from engine.trace.events import Progress


def config_of(prompt="Hi", tokens=30, **more) -> RunConfig:
    return RunConfig(prompt, method="ngram", gamma=4, max_new_tokens=tokens, **more)


def served(limits=Limits(), **engine) -> tuple[FakeWorker, Service]:  # noqa: B008
    worker = FakeWorker(**engine)
    return worker, Service(FakeEngine(worker), limits)


class Visitor(threading.Thread):
    """Runs one request and keeps what it was shown."""

    def __init__(self, service, name, config, may_share=False):
        super().__init__(daemon=True)
        self.service, self.who, self.config, self.may_share = service, name, config, may_share
        self.shown, self.error, self.seconds = [], None, None
        self.start()

    def run(self):
        began = time.monotonic()
        try:
            with self.service.runs.request(self.who) as request:
                for update in self.service.runs.run(request, with_baseline(self.config), may_share=self.may_share):
                    self.shown.append(update)
        except EngineError as error:
            self.error = error
        self.seconds = time.monotonic() - began

    @property
    def recording(self) -> RecordedRun | None:
        return next((update for update in self.shown if isinstance(update, RecordedRun)), None)

    @property
    def events(self) -> list:
        return [event for update in self.shown if isinstance(update, Update) for event in update.events]

    @property
    def stages(self) -> list[str]:
        return [update.progress.message for update in self.shown if isinstance(update, Update) and update.progress]


def test_a_class_of_thirty_costs_one_run():
    worker, service = served(step=0.02)
    crowd = [Visitor(service, f"v{i}", config_of()) for i in range(30)]
    for visitor in crowd:
        visitor.join(20)
    assert len(worker.runs) == 2, "one run and its baseline"
    assert any("already running exactly this" in stage for visitor in crowd for stage in visitor.stages)
    assert sum(bool(v.events) for v in crowd) == 1, "one watches it live, the others do not slow it down"
    found = [v.recording for v in crowd if v.recording]
    assert len(found) == 29 and all(len(r.run.emitted) == len(r.baseline.emitted) == 30 for r in found)
    late = Visitor(service, "late", config_of())
    late.join(2)
    assert late.recording and late.seconds < 0.5 and len(worker.runs) == 2


def test_only_exactly_the_same_settings_are_the_same_run():
    worker, service = served()
    changes = ({}, {"prompt": "Hi!"}, {"seed": 1}, {"tokens": 29}, {"system": "Be brief."}, {"chat": False})
    configs = [config_of(**each) for each in changes]
    for i, config in enumerate(configs):
        visitor = Visitor(service, f"v{i}", config)
        visitor.join(10)
        assert visitor.recording is None and visitor.events
    assert len(worker.runs) == 2 * len(configs)


def test_run_alone_never_joins_an_equal_one_that_may_share_passes():
    worker, service = served(step=0.02)
    sharing = Visitor(service, "sharing", config_of(), may_share=True)
    wait_for(lambda: len(worker.jobs) == 1)
    crowd = [Visitor(service, "alone", config_of()), Visitor(service, "whatever", config_of(), may_share=True)]
    for visitor in (sharing, *crowd):
        visitor.join(10)
    assert [job.may_share for job in worker.jobs] == [True, False], "the third joined the one that runs alone"
    assert all(visitor.events or visitor.recording for visitor in (sharing, *crowd))


def test_when_the_last_one_leaves_the_device_is_free():
    worker, service = served(step=0.02)
    crowd = [Visitor(service, name, config_of(tokens=500)) for name in "abc"]
    wait_for(lambda: worker.jobs and len(worker.jobs[0]._subscribers) == 3)
    for visitor in crowd:
        service.runs.stop(visitor.who)
    for visitor in crowd:
        visitor.join(3)
    wait_for(lambda: worker.running is None, 2)
    assert worker.jobs[0].is_cancelled and not service.runs._jobs and not any(map(service.runs.is_busy, "abc"))
    assert not any(visitor.is_alive() for visitor in crowd)
    assert len(service.runs.results) == 0, "a stopped run is not kept"


def test_stop_counts_before_there_is_a_job_to_stop():
    """Looking at the models' files can take seconds: torch is imported for it."""
    (worker, service), looking, go_on = served(), threading.Event(), threading.Event()

    def problems(*choice):
        looking.set()
        assert go_on.wait(5)
        return []

    service.engine.problems = problems
    visitor = Visitor(service, "a", config_of())
    assert looking.wait(5) and service.runs.is_busy("a") and service.runs.stop("a")
    go_on.set()
    visitor.join(3)
    assert not visitor.is_alive() and visitor.error is None and not visitor.events and worker.jobs == []
    assert not service.runs.is_busy("a") and not service.runs.stop("a")


def test_failure_reaches_every_waiting_visitor_and_the_next_run_works():
    worker, service = served()
    damaged = Unavailable("The weights are damaged; fetch them again.")
    for failure, words in ((damaged, "damaged"), (ZeroDivisionError("oh"), "An unexpected error")):
        worker.fail, worker.step = failure, 0.05
        crowd = [Visitor(service, name, config_of()) for name in "ab"]
        for visitor in crowd:
            visitor.join(5)
            assert words in str(visitor.error)
    worker.fail, worker.step = None, 0
    after = Visitor(service, "a", config_of())
    after.join(10)
    assert after.error is None and after.events


def test_the_cache_is_bounded_in_number_and_size_and_the_unused_go_first():
    trace = recorded(tokens=20)
    cache = ResultCache(2)
    for key in ("a", "b"):
        cache.put(key, RecordedRun({"run": trace}, 0.0))
    assert cache.get("a")
    cache.put("c", RecordedRun({"run": trace}, 0.0))
    assert cache.get("b") is None and cache.get("a") and cache.get("c")
    size = sum(len(event.tokens) for event in trace.rounds)
    small = ResultCache(100, token_limit=3 * size)
    for key in range(10):
        small.put(key, RecordedRun({"run": trace}, 0.0))
    assert len(small) == 3
    small.put("huge", RecordedRun(dict.fromkeys("abcd", trace), 0.0))
    assert small.get("huge") is None and len(small) == 3, "one that is too large empties the cache of nothing else"
    none = ResultCache(0)
    none.put("a", RecordedRun({"run": trace}, 0.0))
    assert none.get("a") is None


def test_an_ended_run_leaves_nothing_in_memory_but_the_cache():
    worker, service = served(Limits(cached_runs=0))
    Visitor(service, "a", config_of()).join(10)
    gone = weakref.ref(worker.jobs.pop())
    wait_for(lambda: worker.running is None)
    gc.collect()
    assert gone() is None and not service.runs._jobs and not service.runs._requests


def test_a_full_queue_refuses_once_and_the_next_run_works():
    worker, service = served(Limits(queue=1), step=0.05)
    crowd = [Visitor(service, "a", config_of(tokens=400))]
    wait_for(lambda: worker.runs)
    crowd.append(Visitor(service, "b", config_of("Other", tokens=4)))
    wait_for(lambda: any("1 before you" in stage for stage in crowd[1].stages))
    third = Visitor(service, "c", config_of("Third"))
    third.join(5)
    assert str(third.error) == "The queue is full: 1 run is waiting. Try again in a minute."
    assert not service.runs.is_busy("c") and len(worker.jobs) == 2
    service.runs.stop("a")
    for visitor in crowd:
        visitor.join(10)
    assert crowd[1].error is None and crowd[1].events


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (config_of("word " * 50), "50 tokens; this page takes up to 20"),
        (config_of("x" * 300), "300 characters; this page takes up to 200"),
        (config_of(system="x" * 300), "system prompt has 300 characters"),
        (config_of(tokens=65), "this page allows 1 to 64"),
        (config_of(pair="giant"), "needs about 900 GB"),
        (config_of(pair="../../etc/passwd"), "does not offer the pair '../../etc/passwd'"),
        (config_of(pair="smollm2-135"), "did you mean smollm2-135m"),
        (RunConfig("Hi", method="eagle", max_new_tokens=8), "has no method 'eagle'"),
        (config_of(precision="bf16"), "does not offer the precision 'bf16'"),
    ],
)
def test_what_is_not_on_offer_is_refused_before_the_engine_sees_it(config, words):
    chars = 200 if "word" not in config.prompt else 8000
    worker, service = served(Limits(prompt_tokens=20, prompt_chars=chars, new_tokens=64))
    visitor = Visitor(service, "a", config)
    visitor.join(5)
    assert words in str(visitor.error) and worker.jobs == []


def test_only_the_pairs_named_are_offered():
    _, service = served(Limits(pairs=("thinker",)))
    assert list(service.offer.pairs) == ["thinker"] and service.offer.pair == "thinker"
    with pytest.raises(BadInput, match="choose from thinker"):
        service.offer.methods("smollm2-135m")


def test_the_real_pairs_are_checked_before_a_load(tmp_path):
    service = Service(EngineFacade(get_worker()), Limits(fetch=False))
    with pytest.raises(BadInput, match="does not offer"):
        list(service.runs.run(service.runs.open("a"), with_baseline(config_of(pair=str(tmp_path)))))
    assert {"none", "ngram", "eagle", "exit"} < {*service.offer.methods("smollm2-135m")}
    assert any("are not here yet" in reason or "GB" in reason for reason in service.offer.problems("qwen3-8b"))
    assert "no method 'exit'" in service.offer.problems("qwen3-8b", "exit")[0]
    assert service.offer.to_fetch("qwen3-8b") == 0, "a visitor's choice may not download here"
    assert Service(EngineFacade(get_worker()), Limits()).offer.to_fetch("qwen3-8b") > 16e9


def test_the_state_follows_the_engine():
    worker, service = served(step=0.05, load=0.3)
    assert service.state.now().kind == "asleep"
    visitor = Visitor(service, "a", config_of(tokens=60))
    wait_for(lambda: service.state.now().kind == "loading")
    wait_for(lambda: service.state.now().kind == "busy")
    other = Visitor(service, "b", config_of("Other", tokens=8))
    wait_for(lambda: service.state.now().waiting == 1)
    worker.step = 0
    visitor.join(20), other.join(20)
    wait_for(lambda: service.state.now().kind == "ready")
    assert service.state.now().device.startswith("cpu")


def with_weights(service, monkeypatch, wait=60.0, draw=0.0) -> None:
    monkeypatch.setattr("app.jobs.engine_state._SECONDS_FOR_A_VISITOR", wait)
    monkeypatch.setattr("app.jobs.engine_state._SECONDS_TO_DRAW", draw)
    service.engine.has_weights = lambda pair: True
    service.state.warm(service.offer.pair)


@pytest.mark.parametrize("has_visitor", [True, False])
def test_model_is_loaded_once_a_page_is_open_or_without_a_visitor(monkeypatch, has_visitor):
    (worker, service), began = served(load=0.4), time.monotonic()
    with_weights(service, monkeypatch, wait=60.0 if has_visitor else 0.3)
    if has_visitor:
        time.sleep(0.3)
        assert not worker.jobs
        assert service.state.now().progress == Progress("Loading the model")  # the first page requests it
    wait_for(lambda: worker.jobs)
    assert time.monotonic() - began >= 0.3
    wait_for(lambda: service.state.now().progress and service.state.now().progress.fraction)
    wait_for(lambda: service.state.now().kind == "ready")


def test_a_run_during_the_warm_up_is_next_and_shows_the_loading(monkeypatch):
    worker, service = served(load=0.4)
    with_weights(service, monkeypatch, wait=0.0)
    wait_for(lambda: worker.jobs)
    visitor = Visitor(service, "a", config_of(tokens=8))
    wait_for(lambda: "Loading the model" in visitor.stages)
    assert service.state.now().waiting == 0
    visitor.join(10)
    assert visitor.error is None and visitor.events and not any("queue" in stage for stage in visitor.stages)
    assert worker.runs[0].chat is False, "the warm-up needs no chat template"


@pytest.mark.parametrize(("load", "draw"), [(0.5, 0.2), (0, 0.5)])
def test_early_run_loads_what_it_needs_and_nothing_is_loaded_twice(monkeypatch, load, draw):
    worker, service = served(load=load)
    with_weights(service, monkeypatch, draw=draw)
    Visitor(service, "a", config_of(tokens=8)).join(20)
    wait_for(lambda: service.state.now().kind == "ready")
    assert [config.prompt for config in worker.runs] == ["Hi", "Hi"]


def test_costs_are_known_as_soon_as_they_are_measured():
    offer, costs = served()[1].offer, CostModel(0.1, {1: 1.0}, 256, 0.03)
    offer.engine.plain_costs, offer.engine.device = Mock(side_effect=[None, costs]), lambda: "cpu"
    assert [offer.plain_costs(offer.pair) for _ in range(3)] == [None, costs, costs], "only what is known is cached"
