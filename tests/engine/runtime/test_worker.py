"""The engine's one thread: order, cancelling, errors, closing, with an engine that loads nothing."""

import gc
import sys
import threading
import time
import weakref
from types import SimpleNamespace

import pytest
from fake_engine import FakeEngine, ask, rest
from fake_worker import wait_for

from engine.config import RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.runtime.worker import Worker, get_worker
from engine.trace.events import Progress, Round, RunFinished, RunStarted


def together(functions):
    """Calls each on a thread of its own, and waits for all of them."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


EXITS = {kind.__name__: kind for kind in (SystemExit, KeyboardInterrupt, GeneratorExit)}


@pytest.fixture
def worker_with():
    """``worker_with(load)``: a worker whose engines come from ``load``."""
    made = []

    def make(load) -> Worker:
        made.append(Worker("cpu", "fp32", loader=load))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


@pytest.fixture
def worker(worker_with):
    """A worker whose engines are fakes; ``worker.made`` lists them."""
    made = []

    def load(config, device, precision, progress):
        for step in range(5):
            progress(step / 4, f"Loading {config.pair}")
        if config.pair in EXITS:
            raise EXITS[config.pair]()
        if config.pair == "missing":
            raise Unavailable("The weights are not here; fetch them.")
        made.append(FakeEngine(config.pair))
        made[-1].precision = precision
        return made[-1]

    found = worker_with(load)
    found.made = made
    return found


def test_reading_returns_at_once_and_a_cancelled_run_ends_in_a_round(worker):
    job = ask(worker, "wait", tokens=1000)
    wait_for(lambda: worker.made and worker.made[0].rounds_seen > 2)
    entries, _, is_done = job.read()
    assert len(entries) > 2 and not is_done
    assert job.read(10_000, timeout=0.01) == ([], None, False)
    seen = worker.made[0].rounds_seen
    job.cancel()
    assert job.wait(1.0) and job.log[-1][1].reason == "cancelled" and worker.made[0].rounds_seen <= seen + 2
    assert job.read(len(job.log)) == ([], None, True)


def test_any_number_of_readers_see_the_same_log_from_any_place(worker):
    job = ask(worker, tokens=50, on_end=lambda job: 1 / 0)  # a bug there does not take the thread down
    seen = [[] for _ in range(8)]
    together([lambda log=log, start=start: log.extend(job.entries(start)) for start, log in enumerate(seen)])
    assert [type(event) for _, event in job.log] == [RunStarted, *[Round] * 50, RunFinished]
    for start, entries in enumerate(seen):
        assert [entry for entry in entries if not isinstance(entry[1], Progress)] == job.log[start:]
    assert list(job.entries()) == job.log, "a reader who comes after the end sees it all"


def test_an_error_in_one_run_ends_the_job_before_the_next(worker):
    configs = [(prompt, RunConfig(prompt, pair="a", max_new_tokens=5)) for prompt in ("tokens", "late bug", "never")]
    job, seen = worker.submit(configs), []
    with pytest.raises(EngineError, match="unexpected error"):
        seen.extend(job.entries())
    assert worker.made[0].ran == ["tokens", "late bug"]
    seen = [entry for entry in seen if not isinstance(entry[1], Progress)]
    assert seen == job.log and [type(e) for name, e in seen if name == "late bug"] == [RunStarted, Round, Round]


def test_a_cancelled_job_does_not_begin_its_next_run(worker):
    job = worker.submit([(prompt, RunConfig(prompt, pair="a", max_new_tokens=1000)) for prompt in ("wait", "next")])
    wait_for(lambda: worker.made and worker.made[0].rounds_seen)
    job.cancel()
    assert job.wait(5) and worker.made[0].ran == ["wait"]


def test_only_the_newest_progress_is_kept(worker_with):
    go = threading.Event()

    def load(config, device, precision, progress):
        for step in range(1001):
            progress(step / 1000, f"step {step}")
        go.wait(10)
        return FakeEngine("a")

    job = ask(worker_with(load))
    wait_for(lambda: job.progress == Progress("step 1000", 1.0))
    entries = job.entries()
    assert next(entries) == ("run", Progress("step 1000", 1.0))
    go.set()
    assert len([event for _, event in entries if not isinstance(event, Progress)]) == 7
    assert job.progress is None, "what was loaded is no news once the run goes on"


def test_the_last_subscriber_to_leave_cancels_the_job(worker):
    job = ask(worker, "wait", tokens=1000)
    first, second = job.subscribe(), job.join()
    assert first.is_live and not second.is_live
    first.leave()
    first.leave()
    assert not job.is_cancelled and not second.has_left
    third = job.join()
    assert third.is_live, "nobody else is"
    second.leave()
    assert second.wait(0) and not third.wait(0.05)
    third.leave()
    assert job.is_cancelled and job.wait(5) and rest(job)[-1].reason == "cancelled"
    assert job.join() is None


def test_the_end_wakes_a_waiting_subscriber_who_may_leave_after_it(worker):
    ended = []
    job = ask(worker, on_end=lambda job: ended.append(job.is_done))
    subscriber = job.subscribe()
    assert subscriber.wait(10) and job.is_done and ended == [False], "on_end comes before the readers see the end"
    subscriber.leave()
    assert not job.is_cancelled and job.join() is None
    assert job.subscribe().wait(0)


def test_the_time_limit_counts_from_the_first_event(worker_with, monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("engine.runtime.job.time", clock)

    def load(config, device, precision, progress):
        clock.now += 100
        return FakeEngine("a")

    worker = worker_with(load)
    job = ask(worker, seconds=9)
    assert len(rest(job)) == 7 and not job.timed_out, "loading does not count"
    slow = ask(worker, "wait", tokens=1000, seconds=9)
    wait_for(lambda: len(slow.log) > 2)
    clock.now += 10
    assert slow.wait(5) and slow.timed_out and rest(slow)[-1].reason == "cancelled"


def test_first_come_first_served_with_places(worker):
    first = ask(worker, "wait", tokens=1000)
    wait_for(lambda: first.place() == 0 and worker.made)
    others = [ask(worker, f"job {i}") for i in range(3)]
    assert [job.place() for job in others] == [1, 2, 3]
    others[0].cancel()
    assert [job.place() for job in others] == [0, 1, 2] and list(others[0].entries()) == []
    first.cancel()
    for job in others[1:]:
        rest(job)
    assert worker.made[0].ran == ["wait", "job 1", "job 2"] and not others[-1].place()


def test_cancelling_breaks_off_loading(worker_with):
    loading = threading.Event()

    def load(config, device, precision, progress):
        loading.set()
        try:
            for _ in range(100_000):
                time.sleep(0.002)
                progress(0.5, "loading")
        except Exception as error:  # as a library on the way may do
            raise Unavailable("It should have passed.") from error

    worker = worker_with(load)
    job = ask(worker)
    assert loading.wait(10)
    job.cancel()
    assert job.wait(1.0) and rest(job) == [] and worker.engine is None


@pytest.mark.parametrize(("prompt", "pair", "said"), [
    ("input", "a", "This request is not good"),
    ("bug", "a", r"An unexpected error ended this request \(ZeroDivisionError: oh\)"),
    ("late bug", "a", "An unexpected error"),
    ("tokens", "missing", "The weights are not here"),
    *(("tokens", exit, f"An unexpected error.*{exit}") for exit in EXITS),
])  # fmt: skip
def test_after_an_error_the_next_request_is_served(worker, prompt, pair, said):
    for _ in range(2):
        job = ask(worker, prompt, pair)
        for _ in range(2):
            with pytest.raises(EngineError, match=said):
                list(job.entries())
        assert job.is_done
    assert len(rest(ask(worker))) == 7


def test_an_error_keeps_no_frame_alive(worker_with):
    """The queue may outlive the request; its error must not hold the models through a traceback."""
    kept = []

    def load(config, device, precision, progress):
        half_loaded = type("Tensor", (), {})()
        kept.append(weakref.ref(half_loaded))
        try:
            raise MemoryError
        except MemoryError as error:
            raise Unavailable("It does not fit; choose a smaller pair.") from error

    job = ask(worker_with(load))
    assert job.wait(10)
    gc.collect()
    assert kept[0]() is None
    with pytest.raises(Unavailable):
        rest(job)


def test_close_from_another_thread_ends_everything(worker):
    running = ask(worker, "wait", tokens=1000)
    wait_for(lambda: worker.made)
    waiting = [ask(worker) for _ in range(3)]
    together([worker.close] * 2)
    assert rest(running)[-1].reason == "cancelled"
    assert [rest(job) for job in waiting] == [[], [], []]
    assert worker.made[0].ran == ["wait"] and worker.made[0].closed and worker.engine is None
    with pytest.raises(BadInput, match="has been closed"):
        ask(worker)


def test_another_pair_replaces_the_loaded_one_even_if_it_fails(worker):
    for pair, precision in (("a", "auto"), ("a", "fp32"), ("b", "auto"), ("b", "bf16"), ("b", "bf16"), ("a", "auto")):
        rest(worker.submit([("run", RunConfig("tokens", pair=pair, max_new_tokens=2, precision=precision))]))
    assert [(e.pair.name, e.precision) for e in worker.made] == [
        ("a", "fp32"), ("b", "fp32"), ("b", "bf16"), ("a", "fp32"),
    ]  # fmt: skip
    assert [e.closed for e in worker.made] == [True, True, True, False]
    with pytest.raises(Unavailable):
        rest(ask(worker, pair="missing"))
    assert worker.made[-1].closed and worker.engine is None and worker.running is None


def test_an_idle_worker_keeps_no_events_alive(worker):
    job = ask(worker)
    rest(job)
    gone = weakref.ref(job)
    del job
    wait_for(lambda: gc.collect() >= 0 and gone() is None)


def test_get_worker_is_one_a_device_and_never_a_closed_one():
    first = get_worker("test-device")
    assert get_worker("test-device") is first and get_worker("other-device") is not first
    first.close()
    assert get_worker("test-device") is not first
    get_worker("test-device").close()
    get_worker("other-device").close()


WORK = RunConfig("-", pair="a", max_new_tokens=1)


def test_work_has_the_engine_on_its_thread_and_reports_in_order(worker):
    def work(engine, should_stop):
        yield engine.pair.name, threading.current_thread().name
        yield Progress("half of it", 0.5)
        yield from range(200)  # far more than a run of one token could report

    job = worker.submit([("lab", WORK)], work)
    assert rest(job) == [("a", "engine-cpu"), *range(200)] == [item for _, item in job.log]
    assert worker.made[0].ran == []
    (without_model,) = rest(worker.submit([("lab", None)], lambda engine, should_stop: (engine for _ in "1")))
    assert without_model is None and len(worker.made) == 1


def test_work_is_cancelled_and_a_bug_in_it_takes_nothing_down(worker):
    held = threading.Event()

    def long(engine, should_stop):
        while not should_stop():
            held.set()
            yield None
            time.sleep(0.01)
        yield "gave up"

    job = worker.submit([("lab", WORK)], long)
    assert held.wait(10)
    job.cancel()
    assert rest(job)[-1] == "gave up"
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        rest(worker.submit([("lab", WORK)], lambda engine, should_stop: (1 / 0 for _ in range(1))))
    assert isinstance(rest(ask(worker))[-1], RunFinished)


def test_an_import_that_fails_is_a_sentence_and_the_engine_thread_goes_on(monkeypatch, worker):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "engine.runtime.shared_runs", None)
        broken = ask(worker)
        wait_for(lambda: broken.is_done)
        with pytest.raises(EngineError, match="unexpected error ended this request"):
            rest(broken)
    assert len(rest(ask(worker))) == 7
