"""Runs in another process, with a process that only pretends: several at once, Stop, errors, work that stays here."""

import threading

import pytest
from fake_engine import ask, rest
from fake_worker import wait_for
from sample_traces import finished, round_, started, token

from app.jobs.remote import RemoteWorker
from engine.errors import Unavailable


class Elsewhere(RemoteWorker):
    """A run of "wait" goes on until it is ended; ``ended``: those whose way there was closed."""

    def __init__(self):
        self.ended, self.go_on = [], threading.Event()
        super().__init__(threads=2)

    def _results(self, job):
        (name, config), prompt = job.configs[0], job.configs[0][1].prompt
        try:
            yield name, started(config)
            if prompt == "refused":
                raise Unavailable("The host did not lend its GPU.")
            index = 0
            while prompt == "wait" and not self.go_on.wait(0.01):
                yield name, round_(index, [token("plain", index)])
                index += 1
            if prompt == "error":
                yield name, Unavailable("The model is not there.")
            yield name, finished()
        finally:
            self.ended.append(prompt)


@pytest.fixture
def worker():
    found = Elsewhere()
    yield found
    found.close()


def test_as_many_run_at_once_as_there_are_threads_and_the_next_waits(worker):
    jobs = [ask(worker, "wait") for _ in range(3)]
    wait_for(lambda: worker.batch_size == 2 == worker.most_running)
    assert jobs[2].place() == 1 and not jobs[2].log
    worker.go_on.set()
    for job in jobs:
        assert rest(job)[-1].reason == "length"


def test_a_stop_closes_the_way_there(worker):
    job = ask(worker, "wait")
    wait_for(lambda: len(job.log) > 2)
    job.cancel()
    assert job.wait(10) and job.error is None and worker.ended == ["wait"]


@pytest.mark.parametrize(("prompt", "words"), [("refused", "did not lend"), ("error", "not there")])
def test_an_error_over_there_is_the_jobs_own_sentence(worker, prompt, words):
    job = ask(worker, prompt)
    assert job.wait(10) and words in str(job.error) and type(job.error) is Unavailable
    assert rest(ask(worker))[-1].reason == "length", "the next run works"
