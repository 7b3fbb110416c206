"""What a reload does to a run, without a browser: the run goes on for its page, and ends for a page that stays away."""

import json
import time
from types import SimpleNamespace

import pytest
from fake_worker import FakeEngine, FakeWorker, wait_for

from app.form import NAMES, defaults
from app.jobs import runs
from app.jobs.service import Service
from app.playground.link_handlers import LinkHandlers
from app.playground.run_handlers import RunHandlers
from app.playground.run_press import RunPress

VALUES = defaults() | {"prompt": "Hi", "method": "ngram", "auto": False, "tokens": 60}
BEFORE, AFTER = (SimpleNamespace(session_hash=name) for name in ("before", "after"))


@pytest.fixture
def handlers() -> RunHandlers:
    return RunHandlers(Service(FakeEngine(FakeWorker(step=0.04))))


def leave_in_mid_run(handlers: RunHandlers) -> str:
    """Closes the stream and unloads the page, as gradio does. Returns the key that the browser keeps."""
    press = RunPress()
    handlers.begin(BEFORE, press)
    stream = handlers.run(BEFORE, press, *(VALUES[name] for name in NAMES))
    while '"round"' not in next(stream):
        pass
    stream.close()
    handlers.leave(BEFORE)
    return press.request.key


def reload(handlers: RunHandlers, key: str) -> tuple[RunPress, bool]:
    """The new page's press, and whether it resumes a run."""
    press, data = RunPress(), {"query": "", "reload": True, "run": key}
    shared = LinkHandlers(handlers.service).open_link(press, SimpleNamespace(_data=data), AFTER)[0]
    return press, "resumed" in json.loads(shared)


def test_a_page_that_stays_away_frees_the_device(handlers, monkeypatch):
    monkeypatch.setattr(runs, "SECONDS_TO_RELOAD", 0.1)
    key = leave_in_mid_run(handlers)
    job = handlers.service.runs.worker.jobs[0]
    assert not job.is_cancelled
    wait_for(lambda: job.is_done, 2)
    assert job.is_cancelled and not handlers.service.runs.is_busy("before")
    press, is_resumed = reload(handlers, key)
    assert is_resumed, "what there was"
    assert "Stopped. The rounds so far stay." in list(handlers.resume(AFTER, press))[-1]


def test_others_who_wait_get_the_device_of_a_page_that_is_gone(handlers, monkeypatch):
    monkeypatch.setattr(runs, "SECONDS_BEFORE_OTHERS", 0.1)
    handlers.service.runs.worker.step = 0.3  # it must not end by itself before the other comes
    leave_in_mid_run(handlers)
    job = handlers.service.runs.worker.jobs[0]
    time.sleep(0.5)
    assert not job.is_cancelled, "nobody waits"
    handlers.service.runs.worker.step = 0  # for the next run
    other = RunPress()
    handlers.begin(AFTER, other)
    stream = handlers.run(AFTER, other, *((VALUES | {"seed": 7})[name] for name in NAMES))
    assert '"round"' in "".join(stream) and job.is_cancelled
