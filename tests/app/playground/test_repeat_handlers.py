"""Repeated measurements: in turn, as medians with their spread; refusals, and Stop."""

import json
import threading
from dataclasses import replace

import pytest
from fake_worker import FakeEngine, FakeWorker, recorded, wait_for
from lab_pages import VISITOR
from presses import line, status_of

from app.form import defaults
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground.repeat_handlers import RepeatHandlers
from app.playground.run_handlers import RunHandlers
from app.playground.run_press import RunPress
from app.server.limits import Limits
from app.ui.widgets import SKIP
from app.views.repeats import medians
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace, from_json, to_json


def make_run(method="ngram", gamma=4, slower=1.0) -> Trace:
    """A made-up run on a machine whose clock runs ``slower`` times as long."""
    raw = json.loads(to_json(recorded(method, gamma, 30)))
    for event in raw["rounds"]:
        event["start"], event["end"] = slower * event["start"], slower * event["end"]
    raw["finished"]["decode_seconds"] *= slower
    return from_json(json.dumps(raw))


def plain(slower=1.0) -> Trace:
    return make_run("none", 0, slower=slower)


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker()


@pytest.fixture
def repeats(worker) -> RepeatHandlers:
    return RepeatHandlers(Service(FakeEngine(worker), Limits()))


def measured(repeats: RepeatHandlers, session: Session, count=3, press=None) -> list[str]:
    press = press or RunPress()
    repeats.begin(VISITOR, press)
    return list(repeats.repeat(press, session, count, VISITOR))


def test_the_medians_and_the_spread_are_shown():
    pairs = [(make_run(slower=s), plain(slower=t)) for s, t in ((3, 1.0), (1, 1.05), (2, 2))]
    found = medians(pairs)
    assert found.run is pairs[2][0] and found.baseline is pairs[1][1] and found.spread[0] < 0.6
    speeds = sorted(compute_metrics(run).tokens_per_second for run, _ in pairs)
    assert f"{speeds[0]:.3g}–{speeds[2]:.3g} tokens/s with drafting" in found.words
    assert found.how == "medians of 3 runs each"
    noisy = medians([(make_run(), plain()), (make_run(), plain(slower=2.5)), (make_run(slower=1.1), plain())])
    assert "1.52–1.68× and noise (1 pair faster than can be) from pair to pair" in noisy.words, "and not by how much"
    assert noisy.how == "medians of 3 runs each" and noisy.spread[1] > 4, "all count, or the slow ones would be left"


def test_repeats_are_measured_in_turn_and_the_page_says_how_many(repeats, worker):
    screens = measured(repeats, Session(make_run(), plain()), 5)
    assert [config.method for config in worker.runs] == ["ngram", "none"] * 5, "a run of a file is not one of them"
    last = screens[-1]
    assert "medians of 5 runs each" in status_of(last)["text"] and "Measured 5 times in turn" in status_of(last)["text"]
    assert "medians of 5" in line(last, "numbers")["tiles"]["speedup"][1]
    assert any("3 of 5, with drafting" in status_of(screen)["text"] for screen in screens)


def test_a_session_that_cannot_be_repeated_is_refused_in_a_sentence(repeats, worker):
    for session, count, words in (
        (Session(), 3, "Press Run first"),
        (Session(make_run(), plain()), 4, "3 or 5"),
        (Session(plain(), plain()), 3, "plain decoding"),
    ):
        last = measured(repeats, session, count)[-1]
        assert status_of(last)["kind"] == "error" and words in status_of(last)["text"] and not worker.jobs


def test_stop_keeps_the_first_measurement(repeats, worker):
    worker.step = 0.05
    press, screens = RunPress(), []
    assert repeats.begin(VISITOR, press)[0]["interactive"] is True
    asked = Session(make_run(), plain())
    thread = threading.Thread(target=lambda: screens.extend(measured(repeats, asked, press=press)))
    thread.start()
    wait_for(lambda: worker.jobs)
    assert repeats.end(press)[0] is SKIP, "a run in progress keeps its Stop"
    RunHandlers(repeats.service).stop(VISITOR)
    thread.join(5)
    assert not thread.is_alive() and repeats.end(press)[0]["interactive"] is False
    assert status_of(screens[-1])["text"].startswith("Stopped") and "round" not in screens[-1]
    assert all(job.is_cancelled for job in worker.jobs)


def test_medians_with_a_run_from_a_file_are_shown_to_its_reader_alone(repeats, worker):
    handlers, press = RunHandlers(repeats.service), RunPress()
    values = defaults() | {"prompt": "Hi", "method": "ngram", "auto": False, "tokens": 30}
    list(handlers.run(VISITOR, press, *values.values()))
    run = press.session.trace
    brought = Session(replace(run, started=replace(run.started, device="elsewhere")), press.session.baseline)
    assert "medians of 3" in status_of(measured(repeats, brought)[-1])["text"]
    again = list(handlers.run(VISITOR, RunPress(), *values.values()))[-1]
    assert "medians" not in status_of(again)["text"]


def test_medians_replace_the_recording_and_a_spread_around_one_is_level(repeats, worker):
    handlers = RunHandlers(repeats.service)
    values = defaults() | {"prompt": "Hi", "method": "ngram", "auto": False, "tokens": 30}
    press = RunPress()
    list(handlers.run(VISITOR, press, *values.values()))
    worker.draft = 0.5  # the repeats are slow, the first pair was fast
    last = measured(repeats, press.session, 3, repeating := RunPress())[-1]
    assert status_of(last)["kind"] == "quiet" and "may be anywhere from 0.00 to" in status_of(last)["text"]
    again = list(handlers.run(VISITOR, RunPress(), *values.values()))[-1]
    assert "medians of 3 runs each" in status_of(again)["text"] and "may be anywhere" in status_of(again)["text"]
    assert [config.method for config in worker.runs] == ["ngram", "none"] * 3, "the first of them was measured here"
    newest = repeating.session
    assert line(handlers.replay(RunPress(), newest), "numbers")["tone"] == "level", "their interval is kept"
    assert repeats.end(repeating)[2] == newest != press.session and repeats.end(repeating)[2] is SKIP
