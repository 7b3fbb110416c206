"""The page's handlers as functions, on a worker without a model: limits, errors, stopping, many visitors."""

import json
import re
import time
from dataclasses import replace
from itertools import pairwise
from threading import Thread
from types import SimpleNamespace

import fake_worker
import pytest
from fake_worker import FakeEngine, FakeWorker, play, recorded, wait_for
from presses import BUTTONS, Screen, form, line, lines_read, page, player_values, press_run, pressed, status_of, visitor

from app.form import EXAMPLES
from app.jobs.service import Service
from app.jobs.updates import Fold, Update
from app.jobs.visitor import Session
from app.page import build, launch_options
from app.playground.run_handlers import LiveRun
from app.playground.run_press import RunPress
from app.playground.startup_run import load_recorded
from app.server.limits import Limits
from app.ui.widgets import SKIP
from app.views import player_feed
from engine.errors import BadInput, Unavailable
from engine.trace.branch import config_of
from engine.trace.events import RunStarted


def test_a_run_shows_its_rounds_then_the_measured_baseline():
    worker = FakeWorker()
    screens = press_run(page(worker))
    assert screens[0].stop["interactive"] is True and screens[0].run["value"] == "Running…"
    assert screens[-1].stop["interactive"] is False and screens[-1].run["value"] == "Run"
    kinds = [line["type"] for line in lines_read(screens)]
    assert kinds[0] == "about" and kinds[-3:] == ["finish", "compared", "over"] and set(kinds[1:-3]) == {"round"}
    assert [(config.method, config.gamma) for config in worker.runs] == [("ngram", 4), ("none", 0)]
    assert worker.runs[0].prompt == worker.runs[1].prompt
    assert line(screens[-1], "numbers")["tiles"]["speedup"][0].endswith("×")
    session = screens[-1].session
    assert len(session.trace.emitted) == len(session.baseline.emitted) == 40


def test_no_update_carries_the_whole_run_and_none_leaves_a_gap():
    worker, screens = FakeWorker(step=0.003), []
    handlers = page(worker)
    for screen in pressed(handlers, tokens=400):
        screens.append(screen)
        if player_values([screen]):
            worker.step = 0  # for the baseline
    values = player_values(screens)
    rounds = [line["index"] for line in lines_read(screens) if line["type"] == "round"]
    assert rounds == list(range(len(rounds))) and len(rounds) > 100
    assert max(player_feed.LONGEST, *map(len, values)) < len(handlers.replay(RunPress(), screens[-1].session))
    for before, value in pairwise(["", *values]):  # a large batch, after a stall of the machine, is sent alone
        repeated = set(value.splitlines()[1:]) & set(before.splitlines()[1:])
        assert len(value) <= player_feed.LONGEST or not repeated


def test_an_update_costs_what_is_new_and_not_the_run_so_far(monkeypatch):
    whole, traces = [], Fold.traces
    monkeypatch.setattr(Fold, "traces", lambda fold: whole.append(fold) or traces(fold))
    screens = press_run(page(FakeWorker(step=0.004)), tokens=200)
    assert len(player_values(screens)) > 20 and len(whole) <= 4, "the whole run is read at its end"


def test_an_example_says_whose_run_is_still_on_the_stage():
    """The recorded run and its speedup stood below another prompt as if they were its result."""
    handlers, own = page(), Session(recorded(prompt="Hi"))
    for prompt, session, words in (
        (EXAMPLES["Fact"].prompt, Session(), "Below is still the recorded run, of another prompt. Press Run."),
        (load_recorded()[0].started.prompt_text, Session(), "Below is a run of this prompt."),
        (EXAMPLES["Fact"].prompt, own, "Below is still the run before, of another prompt."),
        ("Hi", own, "Below is a run of this prompt."),
    ):
        assert words in status_of(handlers.say_whose_run(prompt, RunPress(), session))["text"]
    assert handlers.say_whose_run("Hi", RunPress(has_empty_stage=True), Session()) is SKIP


def test_a_page_that_missed_rounds_is_given_them_again():
    handlers = page()
    session = press_run(handlers)[-1].session
    again = [json.loads(line) for line in handlers.replay(RunPress(), session).splitlines()]
    assert [line["type"] for line in again[:2]] == ["start", "about"] and again[-1]["type"] == "compared"
    assert len(again) == len(session.trace.rounds) + 5
    press = RunPress(session=session)
    assert len(handlers.replay(press, Session()).splitlines()) == len(again), "before the end event"
    assert handlers.replay(RunPress(), Session()) is SKIP


def test_a_press_before_the_end_event_of_the_run_acts_on_that_run():
    handlers = page()
    press, branches = handlers.presses["a"], handlers.branches
    handlers.begin(visitor("a"), press)
    list(handlers.run(visitor("a"), press, *form()))
    newest = press.session
    branches.begin(visitor("a"), press, SimpleNamespace(_data={"place": 5, "id": 3}))
    assert handlers.end(press) == [SKIP] * 3, "the branch has replaced the press"
    list(branches.run(visitor("a"), press, Session()))
    assert replace(branches.end(press)[1].trace, branch=None) == newest.trace


def test_updates_come_at_most_six_times_a_second(monkeypatch):
    monkeypatch.undo()  # the page's own pace
    started = time.monotonic()
    screens = press_run(page(FakeWorker(step=0.02)), tokens=80)
    allowed = 6 * (time.monotonic() - started) + 9  # the first, the last, and the end of either lane come at once
    assert 8 < len(screens) <= allowed


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"prompt": " \n "}, "prompt is empty"), ({"prompt": "half \ud83d"}, "surrogate"), ({"gamma": 33}, "gamma is 33")],
)
def test_bad_input_is_a_sentence_on_the_page_and_the_next_run_works(changes, words):
    """It comes from the form (all its refusals: test_form), the limits (test_service) and the settings of a run."""
    worker = FakeWorker()
    handlers = page(worker)
    screens = press_run(handlers, **changes)
    assert status_of(screens[-1])["kind"] == "error" and words in status_of(screens[-1])["text"]
    assert screens[-1].session is SKIP and player_values(screens) == [], "the run before stays"
    assert worker.jobs == [], "nothing may reach the engine"
    assert status_of(press_run(handlers)[-1])["kind"] != "error"


@pytest.mark.parametrize("fail_at", [None, 2])
def test_a_failing_run_keeps_what_it_made_and_the_next_works(fail_at):
    """There is nothing to keep before the first round; later a failed run is no longer called live."""
    worker = FakeWorker(fail=Unavailable("The weights are damaged; fetch them again."), fail_at=fail_at)
    handlers = page(worker)
    last = press_run(handlers)[-1]
    assert status_of(last) == {"kind": "error", "text": "The weights are damaged; fetch them again.", "fraction": None}
    assert last.run["value"] == "Run" and last.stop["interactive"] is False
    if fail_at is None:
        assert last.session is SKIP and player_values([last]) == [], "the run before stays"
    else:
        lines = [json.loads(line) for line in last.stage.splitlines()]
        assert [line["index"] for line in lines if line["type"] == "round"] == [0, 1]
        assert line(last, "finish")["reason"] == "lost"
    worker.fail = None
    assert status_of(press_run(handlers)[-1])["kind"] == "good"


def test_a_mistake_in_drawing_leaves_no_page_that_says_it_is_running(monkeypatch):
    """A view meets a run it cannot draw: the buttons come back, the engine is let go, and the next run works."""
    handlers, drawn = page(FakeWorker(step=0.01)), player_feed.rounds
    monkeypatch.setattr(player_feed, "rounds", lambda told: {}["no such"] if told else drawn(told))
    *before, last = press_run(handlers)
    assert before[0].run["value"] == "Running…"
    assert last.run["value"] == "Run" and last.stop["interactive"] is False
    assert status_of(last)["kind"] == "error" and "KeyError" in status_of(last)["text"]
    assert not handlers.service.runs.is_busy("a")
    monkeypatch.undo()
    assert status_of(press_run(handlers)[-1])["kind"] == "good"


def test_whatever_happens_the_buttons_come_back():
    handlers = page()
    press = RunPress()
    running = dict(zip(BUTTONS, handlers.begin(visitor(), press), strict=False))
    assert running["stop"]["interactive"] and running["run"]["value"] == "Running…"
    assert handlers.end(press) == [SKIP] * 3, "of an earlier run: this one is about to stream"
    ended = dict(zip(BUTTONS, handlers.end_orphan(press), strict=False))  # as if the run had never reached the server
    assert not handlers.service.runs.is_busy("a")
    assert ended["run"]["value"] == "Run" and not ended["stop"]["interactive"] and ended["session"] is SKIP


@pytest.mark.parametrize(
    ("sign", "worker", "words"),
    [('"round"', {"step": 0.05}, "Stopped"), ("Loading", {"load": 0.5}, "Stopped before the first token.")],
)
def test_stop_keeps_what_there_is_and_the_next_press_is_not_stopped(sign, worker, words):
    worker = FakeWorker(**worker)
    handlers = page(worker)
    for last in pressed(handlers, tokens=500):
        if sign in last.stage:
            handlers.stop(visitor())
    wait_for(lambda: all(job.is_cancelled for job in worker.jobs))
    assert status_of(last)["text"].startswith(words) and last.run["value"] == "Run"
    if sign == '"round"':
        trace = last.session.trace
        assert trace.finished.reason == "cancelled" and 0 < len(trace.rounds) < 100
    worker.step = 0
    assert status_of(press_run(handlers)[-1])["kind"] == "good"


def test_the_run_before_stays_on_the_stage_until_the_next_one_has_a_round():
    trace, live = recorded(), LiveRun()
    live.config = config_of(trace)
    reading = Screen(live.update(Update("run", (trace.started,))))
    assert player_values([reading]) == [] and status_of(reading)["text"] == "Reading the prompt"
    first = Screen(live.update(Update("run", trace.rounds[:1])))
    assert [each["type"] for each in lines_read([first])] == ["about", "round"]


def test_the_status_ends_with_what_the_run_has_to_say_of_itself(monkeypatch):
    def with_notes(*arguments):
        for event in play(*arguments):
            is_start = isinstance(event, RunStarted) and arguments[0].method != "none"
            yield replace(event, notes=("This run goes without the draft x: it is broken.",)) if is_start else event

    monkeypatch.setattr(fake_worker, "play", with_notes)
    handlers = page()
    for _ in range(2):  # the second time from the cache
        assert "This run goes without the draft x: it is broken." in status_of(press_run(handlers)[-1])["text"]
        handlers.presses.clear()


def test_stop_applies_to_a_press_whose_stream_starts_late():
    worker = FakeWorker(step=0.05)
    handlers, press = page(worker), RunPress()
    streams = [handlers.run(visitor(), press, *form(tokens=500)) for _ in range(2) if handlers.begin(visitor(), press)]
    assert "Starting" in next(streams[0])
    handlers.stop(visitor())
    for stream in streams:
        assert status_of(list(stream)[-1])["text"] == "Stopped before the first token."
    assert worker.runs == []


def test_replaced_run_ends_before_the_next_one_shows_a_value():
    """Gradio sends a stream's last value again at its end."""
    handlers, press, shown = page(FakeWorker(step=0.05)), RunPress(), []
    handlers.begin(visitor(), press)
    earlier = press.request
    stream = Thread(target=lambda: shown.extend(handlers.run(visitor(), press, *form(tokens=500))))
    stream.start()
    wait_for(lambda: earlier.tokens)
    handlers.begin(visitor(), press)
    next(handlers.run(visitor(), press, *form(tokens=5)))
    assert earlier.is_over
    stream.join()


def test_stop_ends_a_run_here_that_continues_for_another_visitor():
    worker = FakeWorker(step=0.05)
    handlers, other = page(worker), []
    for last in pressed(handlers, tokens=60):
        if '"round"' in last.stage and not other:
            other.append(Thread(target=press_run, args=[handlers, "b"], kwargs={"tokens": 60}))
            other[0].start()
            wait_for(lambda: len(worker.jobs[0]._subscribers) == 2)
            handlers.stop(visitor())
    assert not worker.jobs[0].is_cancelled and status_of(last)["text"].startswith("Stopped")
    assert line(last, "finish")["reason"] == "cancelled", "else the page would go on saying that it runs"
    worker.step = 0
    other[0].join()


@pytest.mark.parametrize(("draft", "kind"), [(0.001, "quiet"), (1.0, "slow")])
def test_a_recording_that_was_slower_says_so_in_colour_too(draft, kind):
    handlers = page(FakeWorker(draft=draft))
    first, again = press_run(handlers)[-1], press_run(handlers, "b")[-1]
    assert status_of(first)["kind"] == {"quiet": "good"}.get(kind, kind)
    assert "Recorded just now, played again" in status_of(again)["text"] and status_of(again)["kind"] == kind


def test_run_shows_a_recording_once_and_then_runs_live():
    worker = FakeWorker()
    handlers = page(worker)
    press_run(handlers)
    assert line(press_run(handlers, "b")[-1], "about")["recorded"] and len(worker.jobs) == 1
    assert not lines_read(press_run(handlers, "b"))[0]["recorded"] and len(worker.jobs) == 2
    press_run(handlers, "b", seed=1)
    assert line(press_run(handlers, "b")[-1], "about")["recorded"], "other settings have been on the stage meanwhile"


def two_at_once(handlers) -> list[list[Screen]]:
    """Returns the screens of two visitors who press Run for different texts, the second while the first runs."""
    seen = {"a": [], "b": []}
    threads = [Thread(target=lambda who=who: seen[who].extend(press_run(handlers, who, seed=ord(who)))) for who in seen]
    for thread in threads:
        thread.start()
        wait_for(lambda: handlers.service.runs.worker.batch_size)
    for thread in threads:
        thread.join(20)
    return list(seen.values())


def test_shared_run_has_no_speedup_until_it_is_measured_alone():
    worker = FakeWorker(step=0.02, together_at_most=4)
    handlers = page(worker)
    for screens in two_at_once(handlers):
        numbers, session = line(screens[-1], "numbers"), screens[-1].session
        assert session.trace.others == 1 and session.baseline is None and session.trace.finished.reason == "length"
        assert numbers["shared"] is True and not numbers["measuring"]
        word, note = numbers["tiles"]["speedup"]
        assert word == "Not measured"
        assert re.fullmatch(r"alone about \d\.\d× \(predicted\)", note)
        assert status_of(screens[-1])["text"].startswith("1 other run shared the model")
        assert numbers["tiles"]["tau"][0] != "–", "needs no clock"
    handlers.begin(visitor("a"), handlers.presses["a"])
    *_, last = handlers.run_alone(visitor("a"), handlers.presses["a"], session)
    numbers = line(last, "numbers")
    assert numbers["tiles"]["speedup"][0].endswith("×") and "shared" not in numbers
    assert handlers.presses["a"].session.trace.started.config["seed"] == ord("b"), "the run on the stage"
    worker.step = 0
    later = press_run(handlers, "c", seed=ord("a"))[-1].session
    assert later.baseline is not None and later.trace.others == 0, "a result beside others is not kept"


def test_limits_come_from_the_environment_and_survive_typos(monkeypatch):
    monkeypatch.setenv("SPECLENS_MAX_NEW_TOKENS", "77")
    monkeypatch.setenv("SPECLENS_MAX_PROMPT_CHARS", "lots")
    monkeypatch.setenv("SPECLENS_MAX_QUEUE", "9999")
    monkeypatch.setenv("SPECLENS_PAIRS", " smollm2-135m, ,qwen3-4b ")
    assert Limits.from_env() == Limits(new_tokens=77, queue=200, pairs=("smollm2-135m", "qwen3-4b"))
    monkeypatch.setenv("SPACE_ID", "somebody/speclens")
    assert Limits.from_env().fetch is False, "a stranger's choice must not fill a hosted page's disk"


@pytest.mark.parametrize("name", ["fetch", "own_models", "log"])
def test_a_switch_takes_the_usual_words_and_no_others(name, monkeypatch):
    for words, is_on in (("1 true Yes ON", True), ("0 false No off", False)):
        for word in words.split():
            monkeypatch.setenv(f"SPECLENS_{name.upper()}", word)
            assert getattr(Limits.from_env(), name) is is_on, word
    for wrong in ("none", "2", "-1"):
        monkeypatch.setenv(f"SPECLENS_{name.upper()}", wrong)
        with pytest.raises(BadInput, match=f"SPECLENS_{name.upper()} is '{wrong}'; set it to 1 or 0"):
            Limits.from_env()
    monkeypatch.setenv(f"SPECLENS_{name.upper()}", " ")
    assert Limits.from_env() == Limits()


def test_page_is_built_without_requests_and_without_templates_of_text():
    service = Service(FakeEngine(), Limits())
    demo = build(service)
    assert demo.analytics_enabled is False
    options = launch_options(service)
    assert options["ssr_mode"] is False and options["run_history"] is False and options["share"] is False
    for component in demo.config["components"]:
        if component["type"] == "html":
            template = component["props"]["html_template"]
            assert "{{" not in template and ("${" not in template or template == "${value}")
