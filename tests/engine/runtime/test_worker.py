"""The engine's one thread: order, cancelling, errors, closing, with an engine that loads nothing."""

import gc
import sys
import threading
import time
import weakref

import pytest
from fake_engine import FakeEngine, ask, rest, wait_until

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


def test_events_stream_in_order(worker):
    entries = list(ask(worker).entries())
    kinds = [type(e) for _, e in entries if not isinstance(e, Progress)]
    assert kinds == [RunStarted, *[Round] * 5, RunFinished] and {name for name, _ in entries} == {"run"}


def test_reading_returns_what_there_is_at_once_and_a_cancelled_run_ends_within_a_round(worker):
    job = ask(worker, "wait", tokens=1000)
    wait_until(lambda: worker.made and worker.made[0].rounds_seen > 2)
    entries, _, is_done = job.read()
    assert len(entries) > 2 and not is_done
    assert job.read(10_000, timeout=0.01) == ([], None, False)
    seen = worker.made[0].rounds_seen
    job.cancel()
    assert job.wait(1.0) and job.log[-1][1].reason == "cancelled" and worker.made[0].rounds_seen <= seen + 2
    assert job.read(len(job.log)) == ([], None, True)


def test_any_number_of_readers_see_the_same_log_from_any_place(worker):
    job = ask(worker, tokens=50)
    seen = [[] for _ in range(8)]
    together([lambda log=log, start=start: log.extend(job.entries(start)) for start, log in enumerate(seen)])
    assert len(job.log) == 52
    for start, entries in enumerate(seen):
        assert [entry for entry in entries if not isinstance(entry[1], Progress)] == job.log[start:]
    assert list(job.entries()) == job.log, "a reader who comes after the end sees it all"


def test_all_runs_of_a_job_execute_with_nothing_in_between(worker):
    blocker = ask(worker, "wait", tokens=1000)
    wait_until(lambda: worker.made)
    first = worker.submit([(name, RunConfig(f"first {name}", pair="a", max_new_tokens=3)) for name in ("run", "plain")])
    ask(worker, "second")
    blocker.cancel()
    assert [name for name, event in first.entries() if isinstance(event, RunStarted)] == ["run", "plain"]
    wait_until(lambda: len(worker.made[0].ran) == 4)
    assert worker.made[0].ran == ["wait", "first run", "first plain", "second"]


def test_an_error_in_one_run_ends_the_job_before_the_next(worker):
    configs = [(prompt, RunConfig(prompt, pair="a", max_new_tokens=5)) for prompt in ("tokens", "late bug", "never")]
    job, seen = worker.submit(configs), []
    with pytest.raises(EngineError, match="stumbled"):
        seen.extend(job.entries())
    assert worker.made[0].ran == ["tokens", "late bug"]
    seen = [entry for entry in seen if not isinstance(entry[1], Progress)]
    assert seen == job.log and [type(e) for name, e in seen if name == "late bug"] == [RunStarted, Round, Round]


def test_a_cancelled_job_does_not_begin_its_next_run(worker):
    job = worker.submit([(prompt, RunConfig(prompt, pair="a", max_new_tokens=1000)) for prompt in ("wait", "next")])
    wait_until(lambda: worker.made and worker.made[0].rounds_seen)
    job.cancel()
    assert job.wait(5) and worker.made[0].ran == ["wait"]


def test_only_the_newest_progress_is_kept(worker_with):
    ready, go = threading.Event(), threading.Semaphore(0)

    def load(config, device, precision, progress):
        for step in range(10_000):
            progress(step / 10_000, f"step {step}")
        ready.set()
        go.acquire(timeout=10)
        progress(1.0, "almost")
        go.acquire(timeout=10)
        return FakeEngine("a")

    job = ask(worker_with(load))
    assert ready.wait(10)
    entries = job.entries()
    assert next(entries) == ("run", Progress("step 9999", 0.9999))
    go.release()
    assert next(entries)[1].message == "almost"
    go.release()
    assert len([event for _, event in entries if not isinstance(event, Progress)]) == 7
    assert job.progress is None, "what was loaded is no news once the run goes on"


def test_readers_that_never_read_or_are_gone_hold_nothing_up(worker):
    silent = [ask(worker, tokens=200) for _ in range(3)]
    ask(worker, tokens=50)
    gc.collect()
    assert len(rest(ask(worker))) == 7
    assert all(job.is_done and len(job.log) == 202 for job in silent), "the log is bounded by the request"


# ── subscribers ──


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


def test_a_bug_at_the_end_of_a_job_does_not_take_the_thread_down(worker):
    job = ask(worker, on_end=lambda job: 1 / 0)
    assert len(rest(job)) == 7
    assert len(rest(ask(worker))) == 7


def test_the_time_limit_counts_from_the_first_event(worker_with):
    def load(config, device, precision, progress):
        time.sleep(0.4)
        return FakeEngine("a")

    worker = worker_with(load)
    job = ask(worker, seconds=0.2)
    assert len(rest(job)) == 7 and not job.is_late, "loading does not count"
    slow = ask(worker, "wait", tokens=1000, seconds=0.2)
    assert slow.wait(5) and slow.is_late and rest(slow)[-1].reason == "cancelled"


def test_a_job_after_a_warm_up_is_next_and_shows_the_loading(worker_with):
    loading, go = threading.Event(), threading.Semaphore(0)

    def load(config, device, precision, progress):
        loading.set()
        go.acquire(timeout=10)
        progress(0.5, "Loading")
        go.acquire(timeout=10)
        return FakeEngine("a")

    worker = worker_with(load)
    warm_up = ask(worker, is_warm_up=True)
    assert loading.wait(10)
    jobs = [ask(worker), ask(worker)]
    assert [job.place() for job in jobs] == [0, 1] and worker.waiting == 1
    go.release()
    assert jobs[0].read()[1] == Progress("Loading", 0.5)
    go.release()
    assert warm_up.wait(5) and [len(rest(job)) for job in jobs] == [7, 7]


def test_first_come_first_served_with_places(worker):
    first = ask(worker, "wait", tokens=1000)
    wait_until(lambda: first.place() == 0 and worker.made)
    others = [ask(worker, f"job {i}") for i in range(3)]
    assert [job.place() for job in others] == [1, 2, 3]
    others[0].cancel()
    assert [job.place() for job in others] == [0, 1, 2]
    first.cancel()
    for job in others[1:]:
        rest(job)
    assert worker.made[0].ran == ["wait", "job 1", "job 2"]
    assert [job.place() for job in others] == [0, 0, 0]


def test_a_full_queue_says_so(worker):
    worker.max_waiting = 2
    running = ask(worker, "wait", tokens=1000)
    wait_until(lambda: worker.made)
    waiting = [ask(worker), ask(worker)]
    with pytest.raises(BadInput, match="The queue is full: 2 runs are waiting"):
        ask(worker)
    running.cancel()
    assert all(len(rest(job)) == 7 for job in waiting)
    assert len(rest(ask(worker))) == 7


def test_a_job_cancelled_while_it_waits_ends_at_once_and_never_runs(worker):
    first = ask(worker, "wait", tokens=1000)
    wait_until(lambda: worker.made)
    second = ask(worker, "second")
    second.cancel()
    second.cancel()
    assert list(second.entries()) == [] and second.is_done
    first.cancel()
    rest(first)
    assert worker.made[0].ran == ["wait"]


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


@pytest.mark.parametrize(
    ("prompt", "pair", "said"),
    [
        ("input", "a", "This request is not good"),
        ("bug", "a", r"The engine stumbled on this request \(ZeroDivisionError: oh\)"),
        ("late bug", "a", "The engine stumbled"),
        ("tokens", "missing", "The weights are not here"),
        *(("tokens", exit, f"The engine stumbled.*{exit}") for exit in EXITS),
    ],
)
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

    class Tensor:
        pass

    kept = []

    def load(config, device, precision, progress):
        half_loaded = Tensor()
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
    wait_until(lambda: worker.made)
    waiting = [ask(worker) for _ in range(3)]
    together([worker.close] * 2)
    assert rest(running)[-1].reason == "cancelled"
    assert [rest(job) for job in waiting] == [[], [], []]
    assert worker.made[0].ran == ["wait"] and worker.made[0].closed and worker.engine is None
    with pytest.raises(BadInput, match="has been closed"):
        ask(worker)


def test_threads_that_submit_together_are_all_served(worker):
    results = []

    def one(i):
        for j in range(5):
            results.append(len(rest(ask(worker, f"{i} {j}", tokens=3))))

    together([lambda i=i: one(i) for i in range(4)])
    assert results == [5] * 20 and len(worker.made[0].ran) == 20


def test_another_pair_replaces_the_loaded_one_even_if_it_fails_to_load(worker):
    for pair in ("a", "a", "b", "a"):
        rest(ask(worker, pair=pair))
    assert [e.pair.name for e in worker.made] == ["a", "b", "a"]
    assert [e.closed for e in worker.made] == [True, True, False]
    with pytest.raises(Unavailable):
        rest(ask(worker, pair="missing"))
    assert worker.made[-1].closed and worker.engine is None and worker.running is None


def test_another_precision_loads_anew_and_auto_is_the_workers_own(worker):
    for precision in ("auto", "auto", "bf16", "bf16", "auto"):
        rest(worker.submit([("run", RunConfig("tokens", pair="a", max_new_tokens=2, precision=precision))]))
    assert [e.precision for e in worker.made] == ["fp32", "bf16", "fp32"]


def test_an_idle_worker_keeps_no_events_alive(worker):
    job = ask(worker)
    rest(job)
    gone = weakref.ref(job)
    del job
    wait_until(lambda: gc.collect() >= 0 and gone() is None)


def test_get_worker_is_one_a_device_and_never_a_closed_one():
    first = get_worker("test-device")
    assert get_worker("test-device") is first and get_worker("other-device") is not first
    first.close()
    assert get_worker("test-device") is not first
    get_worker("test-device").close()
    get_worker("other-device").close()


# ── work instead of runs ──


WORK = RunConfig("-", pair="a", max_new_tokens=1)


def test_work_has_the_engine_on_its_thread_and_reports_in_order(worker):
    def work(engine, should_stop):
        yield engine.pair.name, threading.current_thread().name
        yield Progress("half of it", 0.5)
        yield from range(200)  # far more than a run of one token could report

    job = worker.submit([("lab", WORK)], work)
    assert rest(job) == [("a", "engine-cpu"), *range(200)] == [item for _, item in job.log]
    assert worker.made[0].ran == []


def test_work_without_a_model_runs_on_the_engines_thread_and_loads_nothing(worker):
    def work(engine, should_stop):
        yield engine, threading.current_thread().name

    assert rest(worker.submit([("lab", None)], work)) == [(None, "engine-cpu")] and worker.made == []


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
    assert list(job.entries())[-1] == ("lab", "gave up")
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        rest(worker.submit([("lab", WORK)], lambda engine, should_stop: (1 / 0 for _ in range(1))))
    assert isinstance(rest(ask(worker))[-1], RunFinished)


def test_an_import_that_fails_is_a_sentence_and_the_engine_thread_goes_on(monkeypatch, worker):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "engine.runtime.shared_runs", None)
        broken = ask(worker)
        wait_until(lambda: broken.is_done)
        with pytest.raises(EngineError, match="stumbled on this request"):
            rest(broken)
    job = ask(worker)
    wait_until(lambda: job.is_done)
    assert len(rest(job)) == 7
