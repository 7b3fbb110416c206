"""The engine's one thread: order, cancelling, errors, closing, with an engine that loads nothing."""

import gc
import threading
import time
import weakref

import pytest
from fake_engine import FakeEngine, ask, rest, wait_until

from engine.config import RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.events import Round, RunFinished, RunStarted
from engine.worker import Progress, Worker, get_worker


@pytest.fixture
def worker():
    """A worker whose engines are fakes; ``worker.made`` lists them."""
    made = []

    def load(config, device, precision, progress):
        for step in range(5):
            progress(step / 4, f"Loading {config.pair}")
        if config.pair == "missing":
            raise Unavailable("The weights are not here; fetch them.")
        made.append(FakeEngine(config.pair))
        made[-1].precision = precision
        return made[-1]

    found = Worker("cpu", "fp32", loader=load)
    found.made = made
    yield found
    found.close()


def test_events_stream_in_order(worker):
    events = list(ask(worker).events())
    kinds = [type(e) for e in events if not isinstance(e, Progress)]
    assert kinds == [RunStarted, *[Round] * 5, RunFinished]
    assert isinstance(events[0], Progress) and events[0].message == "Loading a"


def test_a_round_can_be_read_while_the_run_goes_on(worker):
    job = ask(worker, "wait", tokens=1000)
    stream = (e for e in job.events() if isinstance(e, Round))
    assert next(stream).index == 0 and not job.finished.is_set()
    job.cancel()


def test_poll_gives_what_there_is_and_does_not_wait(worker):
    job = ask(worker, "wait", tokens=1000)
    wait_until(lambda: worker.made and worker.made[0].rounds_seen > 2)
    assert len(job.poll()) > 2
    job.cancel()
    events = []
    while not job.done:
        events += job.poll(0.5)
    assert isinstance(events[-1], RunFinished) and job.poll() == []


def test_only_the_latest_progress_is_kept():
    ready, go = threading.Event(), threading.Event()

    def load(config, device, precision, progress):
        for step in range(10_000):
            progress(step / 10_000, f"step {step}")
        ready.set()
        go.wait(10)
        progress(1.0, "almost")
        return FakeEngine("a")

    worker = Worker(loader=load)
    job = ask(worker)
    assert ready.wait(10)
    assert [p.message for p in job.poll(1)] == ["step 9999"]
    go.set()
    assert next(job.events()).message == "almost"
    worker.close()


def test_a_reader_that_never_reads_holds_nothing_up(worker):
    silent = [ask(worker, tokens=200) for _ in range(3)]
    assert len(rest(ask(worker))) == 7
    assert all(job.finished.is_set() for job in silent)
    assert all(job._queue.qsize() <= 205 for job in silent)


def test_an_abandoned_job_holds_nothing_up(worker):
    ask(worker, tokens=50)
    gc.collect()
    assert len(rest(ask(worker))) == 7


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
    assert list(second.events()) == [] and second.finished.is_set()
    first.cancel()
    rest(first)
    assert worker.made[0].ran == ["wait"]


def test_a_running_job_ends_within_a_round(worker):
    job = ask(worker, "wait", tokens=1000)
    wait_until(lambda: worker.made and worker.made[0].rounds_seen > 1)
    seen = worker.made[0].rounds_seen
    job.cancel()
    assert job.finished.wait(1.0)
    assert worker.made[0].rounds_seen <= seen + 2
    assert rest(job)[-1].reason == "cancelled"


def test_cancelling_breaks_off_loading():
    loading = threading.Event()

    def load(config, device, precision, progress):
        loading.set()
        try:
            for _ in range(100_000):
                time.sleep(0.002)
                progress(0.5, "loading")
        except Exception as error:  # as a library on the way may do
            raise Unavailable("It should have passed.") from error

    worker = Worker(loader=load)
    job = ask(worker)
    assert loading.wait(10)
    job.cancel()
    assert job.finished.wait(1.0) and rest(job) == [] and worker.engine is None
    worker.close()


@pytest.mark.parametrize(
    ("prompt", "pair", "said"),
    [
        ("input", "a", "This request is not good"),
        ("bug", "a", r"The engine stumbled on this request \(ZeroDivisionError: oh\)"),
        ("late bug", "a", "The engine stumbled"),
        ("tokens", "missing", "The weights are not here"),
    ],
)
def test_after_an_error_the_next_request_is_served(worker, prompt, pair, said):
    for read in (lambda job: list(job.events()), lambda job: [job.poll(0.2) for _ in range(50)]):
        job = ask(worker, prompt, pair)
        with pytest.raises(EngineError, match=said):
            read(job)
        assert job.done and job.poll() == [] and list(job.events()) == []
    assert len(rest(ask(worker))) == 7


def test_an_error_comes_after_everything_before_it(worker):
    job = ask(worker, "late bug")
    assert job.finished.wait(10)
    assert [type(e) for e in job.poll() if not isinstance(e, Progress)] == [RunStarted, Round, Round]
    with pytest.raises(EngineError):
        next(job.events())


def test_an_error_keeps_no_frame_alive():
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

    worker = Worker(loader=load)
    job = ask(worker)
    assert job.finished.wait(10)
    gc.collect()
    assert kept[0]() is None
    with pytest.raises(Unavailable):
        rest(job)
    worker.close()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_not_even_an_exit_takes_the_thread_down(error):
    raised = iter([error])

    def load(config, device, precision, progress):
        for each in raised:
            raise each
        return FakeEngine(config.pair)

    worker = Worker(loader=load)
    with pytest.raises(EngineError, match="stumbled"):
        rest(ask(worker))
    assert len(rest(ask(worker))) == 7
    worker.close()


def test_close_from_another_thread_ends_everything(worker):
    running = ask(worker, "wait", tokens=1000)
    wait_until(lambda: worker.made)
    waiting = [ask(worker) for _ in range(3)]
    closers = [threading.Thread(target=worker.close) for _ in range(2)]
    for thread in closers:
        thread.start()
    for thread in closers:
        thread.join(5)
        assert not thread.is_alive()
    assert rest(running)[-1].reason == "cancelled"
    assert [rest(job) for job in waiting] == [[], [], []]
    assert worker.made[0].ran == ["wait"] and worker.made[0].closed and worker.state == "closed"
    with pytest.raises(BadInput, match="has been closed"):
        ask(worker)


def test_a_double_submit_runs_both_one_after_the_other(worker):
    jobs = [ask(worker), ask(worker)]
    assert [len(rest(job)) for job in jobs] == [7, 7] and jobs[0].id != jobs[1].id


def test_threads_that_submit_together_are_all_served(worker):
    results = []

    def one(i):
        for j in range(5):
            results.append(len(rest(ask(worker, f"{i} {j}", tokens=3))))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert results == [5] * 20 and len(worker.made[0].ran) == 20


def test_another_pair_replaces_the_loaded_one(worker):
    for pair in ("a", "a", "b", "a"):
        rest(ask(worker, pair=pair))
    assert [e.pair.name for e in worker.made] == ["a", "b", "a"]
    assert [e.closed for e in worker.made] == [True, True, False]


def test_another_precision_loads_anew_and_auto_is_the_workers_own(worker):
    for precision in ("auto", "auto", "bf16", "bf16", "auto"):
        rest(worker.submit(RunConfig("tokens", pair="a", max_new_tokens=2, precision=precision)))
    assert [e.precision for e in worker.made] == ["fp32", "bf16", "fp32"]
    with pytest.raises(BadInput, match="precision is 'int1'"):
        RunConfig("tokens", precision="int1")


def test_a_failed_load_has_let_go_of_the_older_pair(worker):
    rest(ask(worker))
    with pytest.raises(Unavailable):
        rest(ask(worker, pair="missing"))
    assert worker.made[0].closed and worker.engine is None and worker.state == "idle"


def test_an_idle_worker_holds_nobodys_events(worker):
    job = ask(worker)
    rest(job)
    gone = weakref.ref(job)
    wait_until(lambda: worker._running is None)
    del job
    gc.collect()
    assert gone() is None


def test_get_worker_is_one_a_device_and_never_a_closed_one():
    first = get_worker("test-device")
    assert get_worker("test-device") is first and get_worker("other-device") is not first
    first.close()
    assert get_worker("test-device") is not first
    get_worker("test-device").close()
    get_worker("other-device").close()


# ── work that is no run ──


def working(worker, work) -> list:
    return list(worker.submit(RunConfig("-", pair="a", max_new_tokens=1), work=work).events())


def test_work_has_the_engine_on_its_thread_and_reports_in_order(worker):
    def work(engine, cancelled):
        yield engine.pair.name, threading.current_thread().name
        yield from range(200)  # far more than a run of one token could say

    found = [item for item in working(worker, work) if not isinstance(item, Progress)]
    assert found == [("a", "engine-cpu"), *range(200)]
    assert worker.made[0].ran == [] and worker.state == "ready"


def test_progress_of_work_is_only_the_latest():
    worker = Worker("cpu", loader=lambda *_: FakeEngine("a"))
    job = worker.submit(
        RunConfig("-"), work=lambda engine, cancelled: (Progress(n / 9, f"step {n}") for n in range(10))
    )
    job.finished.wait(10)
    assert [item.message for item in job.events()] == ["step 9"]
    worker.close()


def test_work_is_cancelled_and_a_bug_in_it_takes_nothing_down(worker):
    held = threading.Event()

    def long(engine, cancelled):
        while not cancelled():
            held.set()
            yield None
            time.sleep(0.01)
        yield "gave up"

    job = worker.submit(RunConfig("-", pair="a"), work=long)
    assert held.wait(10)
    job.cancel()
    assert list(job.events())[-1] == "gave up"
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        working(worker, lambda engine, cancelled: (1 / 0 for _ in range(1)))
    assert isinstance(rest(ask(worker))[-1], RunFinished)
