"""Runs on Ray without a cluster: made-up streams, with Ray's own errors and responses."""

import concurrent.futures
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from fake_engine import ask, rest
from fake_worker import wait_for
from sample_traces import finished, started, token
from sample_traces import round_ as round_event

pytest.importorskip("ray")
from ray.exceptions import ActorDiedError, RayTaskError, TaskCancelledError
from ray.serve.exceptions import DeploymentUnavailableError, RequestCancelledError
from ray.serve.handle import DeploymentResponseGenerator

import app.cluster.__main__ as command
from app.cluster import deployments
from app.cluster.deployments import Size, application
from app.cluster.ray_worker import News, RayFacade, RayWorker
from app.jobs.engine_facade import Hardware
from app.server.limits import Limits
from engine.config import RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.weights import preflight

FULL = "The queue is full: 32 runs are waiting. Try again in a minute."
GPU = Hardware("cuda", "NVIDIA H200", ("auto", "bf16", "fp16", "fp32"))


class Stream:
    """Yields ``items``, raising those that are errors; then waits for `cancel`, if it ``waits``."""

    def __init__(self, *items, waits=False):
        self.items, self.waits, self.is_cancelled = list(items), waits, threading.Event()

    def __iter__(self):
        return self

    def __next__(self):
        if self.items:
            item = self.items.pop(0)
            if isinstance(item, Exception):
                raise item
            return item
        if self.waits and self.is_cancelled.wait(10):
            raise RequestCancelledError("1")
        raise StopIteration

    def cancel(self):
        self.is_cancelled.set()


class Engines:
    """A handle: each run gets the next of ``streams``; ``answers`` of `hardware` are values or errors."""

    def __init__(self, *streams, answers=()):
        self.streams, self.answers, self.go_on = list(streams), list(answers), threading.Event()
        self.go_on.set()
        self.run = SimpleNamespace(remote=self._next_stream)
        self.hardware = SimpleNamespace(remote=lambda: SimpleNamespace(result=self._next_answer))

    def options(self, **_):
        return self

    def _next_stream(self, request):
        self.go_on.wait(10)
        return self.streams.pop(0)

    def _next_answer(self):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def raised_there(cause: Exception) -> RayTaskError:
    """``cause`` as Ray raises it here: its message is a traceback."""
    text = f"Traceback (most recent call last):\n  File …\n{type(cause).__name__}: {cause}"
    return RayTaskError("run", text, cause, proctitle="replica", pid=1, ip="127.0.0.1").as_instanceof_cause()


def news(*events) -> News:
    return News([("run", event) for event in events], 0.0, "Engine#1")


def first_news() -> News:
    return news(started(RunConfig("tokens")), round_event(0, [token("plain", 0)]))


@pytest.fixture
def worker():
    """``worker(stream, …)``: one thread, whose runs get these streams in turn."""
    made = []

    def make(*streams) -> RayWorker:
        made.append(RayWorker(Engines(*streams), 1))
        return made[-1]

    yield make
    for each in made:
        each.close()


def error_of(job) -> EngineError | None:
    assert job.wait(10)
    return job.error


@pytest.mark.parametrize("items", [[], [first_news()]])
def test_a_replicas_own_sentence_arrives_unchanged(worker, items):
    error = error_of(ask(worker(Stream(*items, raised_there(BadInput(FULL))))))
    assert type(error) is BadInput and str(error) == FULL


@pytest.mark.parametrize(
    "loss",
    [ActorDiedError(), DeploymentUnavailableError("Engine"), TaskCancelledError(), raised_there(ActorDiedError())],
    ids=lambda loss: type(loss).__name__,
)
def test_a_lost_engine_is_a_sentence_and_the_next_run_works(worker, loss):
    two = worker(Stream(first_news(), loss), Stream(first_news(), news(finished())))
    error = error_of(ask(two))
    assert type(error) is Unavailable and "has stopped in mid-run" in str(error) and "press Run" in str(error)
    assert rest(ask(two))[-1].reason == "length"


def unassigned() -> DeploymentResponseGenerator:
    """Ray's own response to a request that no replica can take: reading it raises, and so does cancelling it."""
    future = concurrent.futures.Future()
    future.set_exception(DeploymentUnavailableError("Engine"))
    return DeploymentResponseGenerator(future, SimpleNamespace(request_id="1"))


def test_a_request_that_no_engine_takes_is_a_sentence(worker):
    with pytest.raises(DeploymentUnavailableError):
        unassigned().cancel()
    error = error_of(ask(worker(unassigned())))
    assert type(error) is Unavailable and "press Run" in str(error)


def test_a_stop_before_the_replica_has_the_request_reaches_it(worker):
    stream = Stream(waits=True)
    one = worker(stream)
    one._engines.go_on.clear()
    job = ask(one)
    wait_for(lambda: one.running is job)
    job.cancel()
    began = time.monotonic()
    one._engines.go_on.set()
    assert error_of(job) is None and stream.is_cancelled.is_set() and time.monotonic() - began < 5


def facade(*answers) -> RayFacade:
    found = RayFacade(None, Engines(answers=answers))
    wait_for(lambda: found.hardware() is not None)
    return found


def test_memory_of_the_page_refuses_no_run(monkeypatch):
    monkeypatch.setattr(preflight, "available_memory", lambda device="cpu": 10**6)
    assert facade(GPU).problems("smollm2-135m", "auto", "auto", True) == []
    assert "no method 'exit'" in facade(GPU).problems("qwen3-8b", "exit", "auto", True)[0]


def test_precisions_are_those_of_an_engine(monkeypatch):
    monkeypatch.setattr("app.cluster.ray_worker._SECONDS_BETWEEN_TRIES", 0.0)
    assert facade(ActorDiedError(), GPU).precisions() == GPU.precisions


def test_precision_is_automatic_before_an_engine_answers():
    is_loaded, loading = threading.Event(), Engines()
    loading.hardware.remote = lambda: SimpleNamespace(result=lambda: is_loaded.wait(10) and GPU)
    early = RayFacade(None, loading)
    assert early.precisions() == ("auto",)
    assert early.method_costs("smollm2-135m") == early.known_steps("smollm2-135m") == {}
    is_loaded.set()
    wait_for(lambda: early.precisions() == GPU.precisions)


def test_an_engine_that_is_scaled_down_has_time_for_its_runs(monkeypatch):
    options = {}
    stub = SimpleNamespace(options=lambda **given: options.update(given) or SimpleNamespace(bind=lambda *_: None))
    monkeypatch.setattr(deployments, "Engine", stub)
    monkeypatch.setenv("SPECLENS_MAX_SECONDS", "600")
    application(Size())
    assert options["graceful_shutdown_timeout_s"] > 600 > Limits().seconds


def test_an_absurd_size_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["app.cluster", "--at-least", "3"])
    with pytest.raises(SystemExit) as exit:
        command.main()
    assert exit.value.code == 2 and "at_least must not be more than replicas" in capsys.readouterr().err
