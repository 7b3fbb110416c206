"""Jobs that share passes: they join, wait, lose their measurement, and nothing crosses."""

import random
import threading

import pytest
from fake_engine import FakeEngine, ask, rest
from fake_worker import wait_for

from engine.config import RunConfig
from engine.runtime.shared_runs import SharedRuns
from engine.runtime.worker import Worker
from engine.trace.events import Round, RunFinished


@pytest.fixture
def worker():
    """Returns a worker that runs up to three together."""
    found = Worker("cpu", "fp32", loader=lambda config, *rest: FakeEngine(config.pair))
    found.max_batch_size = 3
    rest(ask(found, tokens=1))
    yield found
    found.close()


def both(worker, prompt="wait", tokens=1000, plain=5):
    """A run and its baseline, of ``plain`` tokens, as one job that may share."""
    run, baseline = (RunConfig(prompt, pair="a", max_new_tokens=count) for count in (tokens, plain))
    return worker.submit([("run", run), ("baseline", baseline)], may_share=True)


def one(worker, prompt="wait", tokens=1000, **options):
    return ask(worker, prompt, tokens=tokens, may_share=True, **options)


def rounds(job, name="run"):
    return [event for each, event in job.log if each == name and isinstance(event, Round)]


def has_begun(job):
    wait_for(lambda: len(rounds(job)) > 1)


def ends(job) -> dict:
    return {name: event.reason for name, event in job.log if isinstance(event, RunFinished)}


def test_jobs_join_between_passes_and_leave_when_they_end(worker):
    first = one(worker)
    has_begun(first)
    second, third = one(worker, "tokens", 5), one(worker)
    has_begun(third)
    rest(second)
    assert worker.batch_size == 2 and ends(second) == {"run": "length"} and second.sharing_jobs in (1, 2)
    for job in (first, third):
        job.cancel()
        rest(job)
    assert max(event.rows for event in rounds(first)) == 3 == first.sharing_jobs + 1


def test_baseline_runs_only_while_its_job_is_alone(worker):
    alone = both(worker, "tokens", 5)
    rest(alone)
    assert ends(alone) == {"run": "length", "baseline": "length"} and alone.sharing_jobs == 0
    assert {event.rows for event in rounds(alone)} == {1}

    first, second = both(worker, "wait", 6), both(worker, "wait", 6)
    rest(first), rest(second)
    assert ends(first) == ends(second) == {"run": "length"} and first.sharing_jobs == second.sharing_jobs == 1

    first = both(worker, "wait", 2, plain=1000)
    wait_for(lambda: rounds(first, "baseline"))
    second = one(worker, "tokens", 2)
    rest(first)
    assert ends(first) == {"run": "length"} and first.sharing_jobs == 1, "the newcomer does not wait"
    rest(second)
    assert ends(second) == {"run": "length"}


def test_job_that_may_not_share_waits_and_holds_back_later_ones(worker):
    first = one(worker)
    has_begun(first)
    alone, behind = ask(worker, "wait", tokens=1000), one(worker, "tokens", 3)
    wait_for(lambda: alone.place() == 1 and behind.place() == 2)
    first.cancel()
    has_begun(alone)
    assert worker.batch_size == 1 and behind.place() == 1 and not behind.log
    alone.cancel()
    rest(behind)
    assert behind.sharing_jobs == alone.sharing_jobs == 0


@pytest.mark.parametrize("kind", ["pair", "method", "bound"])
def test_a_job_that_cannot_join_waits_its_turn(worker, kind):
    jobs = [one(worker) for _ in range(3 if kind == "bound" else 1)]
    for job in jobs:
        has_begun(job)
    if kind == "method":
        worker.engine.slow = {RunConfig("any").method}
    last = one(worker, "tokens", 3, **({"pair": "b"} if kind == "pair" else {}))
    goes_on(jobs[0])
    assert last.place() == 1 and not last.log
    for job in jobs:
        job.cancel()
    rest(last)
    assert ends(last) == {"run": "length"}


def test_a_job_waits_for_memory_until_another_ends(worker, monkeypatch):
    monkeypatch.setattr("engine.runtime.run_batch.available_memory", lambda device: 150)
    first = one(worker)
    has_begun(first)
    worker.engine.memory = 100
    second, third = one(worker), one(worker, "tokens", 3)
    has_begun(second)
    wait_for(lambda: third.place() == 1)
    goes_on(second)
    assert not third.log and worker.waiting == 1
    second.cancel()
    rest(third)
    assert ends(third) == {"run": "length"} and not ends(first)
    first.cancel()


def test_closing_ends_a_job_that_could_not_join(worker, monkeypatch):
    first = one(worker)
    has_begun(first)
    closing = threading.Thread(target=worker.close)

    def refuse(runs, job):
        closing.start()
        wait_for(lambda: job.is_cancelled)
        return False

    monkeypatch.setattr(SharedRuns, "add", refuse)
    second = one(worker)
    rest(second)
    closing.join()
    assert not second.log and worker.waiting == 0


def goes_on(job):
    before = len(rounds(job))
    wait_for(lambda: len(rounds(job)) > before + 2)


def test_an_error_and_the_limit_of_time_end_their_own_job_only(worker):
    first = one(worker)
    has_begun(first)
    for prompt, words in (("input", "not good"), ("bug", "oh"), ("late bug", "gone")):
        bad = both(worker, prompt, 5)
        assert bad.wait(10) and words in str(bad.error) and bad.error.__traceback__ is None
        goes_on(first)
    late = one(worker, seconds=0.1)
    rest(late)
    assert late.timed_out and not first.timed_out and ends(late) == {"run": "cancelled"}
    goes_on(first)
    first.cancel()


def test_forty_joins_and_leaves_lose_no_event(worker):
    chance, jobs = random.Random(0), []
    for i in range(40):
        jobs.append(one(worker, tokens=i % 7 + 1, prompt="tokens" if i % 2 else "wait"))
        if chance.random() < 0.3:
            chance.choice(jobs).cancel()
        wait_for(lambda: worker.waiting < 10)
    for job in jobs:
        job.wait(20)
        if not job.is_cancelled:
            assert [event.index for event in rounds(job)] == [*range(job.configs[0][1].max_new_tokens)]
            assert ends(job) == {"run": "length"}
    assert worker.batch_size == 0 and worker.waiting == 0
