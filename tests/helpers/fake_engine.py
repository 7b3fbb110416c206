"""An engine that loads nothing and does what the prompt says, for tests of the thread around it."""

import threading
from types import SimpleNamespace

from sample_traces import finished, round_, started, token
from shared_passes import SharedPasses

from engine.config import RunConfig
from engine.errors import BadInput
from engine.runtime.job import Job
from engine.trace.events import Progress


class FakeEngine(SharedPasses):
    """Runs what the prompt says: "tokens", "wait" (until let go or cancelled), "input", "bug", "late bug"."""

    def __init__(self, pair: str):
        self.pair, self.closed, self.release = SimpleNamespace(name=pair), False, threading.Event()
        self.ran: list[str] = []
        self.rounds_seen = 0

    def on_progress(self, progress):
        self.progress = progress

    def has(self, method):
        return True

    def run(self, config, cancelled):
        self.ran.append(config.prompt)
        if config.prompt == "input":
            raise BadInput("This request is not good; make a better one.")
        if config.prompt == "bug":
            raise ZeroDivisionError("oh")
        yield started(config)
        for i in range(config.max_new_tokens):
            if cancelled():
                break
            if config.prompt == "wait":
                self.release.wait(0.01 if i else 0.05)
            if config.prompt == "late bug" and i == 2:
                raise KeyError("gone")
            self.rounds_seen += 1
            yield round_(i, [token("plain", i)])
        yield finished("cancelled" if cancelled() else "length")

    def close(self):
        self.closed = True


def ask(worker, prompt="tokens", pair="a", tokens=5, **options) -> Job:
    """One run as a job."""
    return worker.submit([("run", RunConfig(prompt, pair=pair, max_new_tokens=tokens))], **options)


def rest(job: Job) -> list:
    return [event for _, event in job.entries() if not isinstance(event, Progress)]
