"""One contract for every experiment: stop, go on, start over, measure noise again, refuse; on a real tiny engine."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import gradio as gr
import pytest
from fake_worker import FakeEngine
from lab_pages import PAIR, VISITOR, WorkingWorker, notice_of, short_form

from app.jobs import press
from app.jobs.baseline import with_baseline
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.lab.distribution import work as rule_work
from app.lab.experiment import PageState
from app.lab.page import EXPERIMENTS, lab
from app.lab.work_units import Step
from app.server.limits import Limits
from app.ui.widgets import SKIP
from engine.config import RunConfig
from engine.errors import Unavailable
from engine.tools.bench.sample import Point
from engine.tools.bench.sweep_results import Cell
from engine.tools.bench.users_results import UsersRow


@dataclass(frozen=True)
class Case:
    """``points``: of a result, the measurement at each place; ``value``: the part of it that only a new measurement
    changes; ``keeps``: the next press goes on from the points so far."""

    points: Callable[..., dict]
    value: Callable = lambda point: point
    is_complete: Callable = lambda result: result.is_complete
    keeps: bool = True


CASES = {
    "sweep": Case(lambda sweep: {(c.category, c.method): c for c in sweep.cells if c.category != "all"}),
    "users": Case(
        lambda users: {(row.users, row.method): row for rows in users.rows.values() for row in rows},
        lambda row: row.seconds,
    ),
    "theory": Case(lambda result: result.points, lambda point: point.turns, lambda result: len(result) == 3),
    "compare": Case(
        lambda result: {at: column.trace for at, column in enumerate(result.columns) if column.trace},
        is_complete=lambda result: all(column.is_complete for column in result.columns),
        keeps=False,
    ),
    "distribution": Case(
        dict, lambda report: report.result, lambda result: all(report.is_complete for report in result.values()), False
    ),
}

OF_EACH_KIND = ("sweep", "compare", "distribution")  # one of the measurements, which share all of it


class Page:
    """One experiment, and what the visitor has measured."""

    def __init__(self, name: str, engine=None, before=lambda count: None, fail=None, **limits):
        self.name, self.case = name, CASES[name]
        self.worker = WorkingWorker(engine, before, step=0.02, fail=fail)
        self.experiment = EXPERIMENTS[name](Service(FakeEngine(self.worker), Limits(**limits)))
        self.state = PageState()

    def work(self) -> int:
        """The runs and units of work that have reached the engine."""
        return self.worker.units + len(self.worker.runs)

    def values(self) -> dict:
        points = self.case.points(self.state.result) if self.state.result else {}
        return {place: self.case.value(point) for place, point in points.items()}

    def is_complete(self) -> bool:
        return bool(self.state.result) and self.case.is_complete(self.state.result)

    def press(self, how=None, **changes):
        """A generator of updates."""
        self.experiment.begin(VISITOR, self.state)
        return self.experiment.press(how)(VISITOR, self.state, *short_form(self.name, self.experiment, **changes))

    def press_until_points(self, **changes):
        updates = self.press(**changes)
        while not self.values():
            next(updates)
        return updates

    def is_running(self) -> bool:
        return self.experiment.end(self.state)[0] is SKIP


@pytest.fixture
def page(engine, tmp_path, monkeypatch) -> Iterator[Callable[..., Page]]:
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path))
    monkeypatch.setattr(rule_work, "SECONDS", 0.0)  # a unit is over with its first batch
    monkeypatch.setattr(press, "SECONDS_FOR_EARLIER", 0.0)  # a replaced stream is one of this thread, too
    pages = []
    yield lambda name, **more: pages.append(Page(name, engine, **more)) or pages[-1]
    for each in pages:
        each.worker.close()  # otherwise its last unit could run beside the next test's, on the same engine


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_an_earlier_result_is_said_to_be_old_until_a_figure_is_drawn(page, name):
    """The figures of the last run stood below the progress of the next as if they were its own."""
    page = page(name)
    for before in ("the recorded example", "the earlier result"):
        page.worker.engine, updates = None, list(page.press())
        drawn = next(at for at, update in enumerate(updates) if any(value is not SKIP for value in update[1:]))
        notices = [(at >= drawn, notice_of(each)) for at, each in enumerate(updates) if each.notice is not SKIP]
        assert all(is_drawn != each.get("old", False) or each["kind"] != "progress" for is_drawn, each in notices)
        assert all(before in each["text"] for is_drawn, each in notices if not is_drawn)


@pytest.mark.parametrize("name", CASES)
def test_stop_keeps_the_points_and_the_next_press_goes_on(page, name):
    page = page(name)
    experiment = page.experiment
    updates = page.press_until_points()
    experiment.stop(VISITOR)
    last, stopped = list(updates)[-1], page.values()
    assert stopped and not page.is_complete() and notice_of(last)["kind"] != "error"
    assert ("topped" if name != "sweep" else "goes on") in notice_of(last)["text"]
    run, stop, *rest = experiment.end(page.state)
    files = rest[: len(experiment.FILES)]
    assert run["value"] == experiment.RUN and not stop["interactive"]
    assert all(file["interactive"] and Path(file["value"]).stat().st_size for file in files)
    assert not page.case.keeps or rest[len(files)]["interactive"], "now it can start over"

    updates, page.worker.step = page.press_until_points(), 0.0
    if page.case.keeps:
        assert page.values() == stopped, "shown before any other is measured"
    list(updates)
    assert page.is_complete() and (not page.case.keeps or page.values().items() >= stopped.items())
    measured, work = page.values(), page.work()
    list(page.press())
    assert page.is_complete() and page.values() == measured
    assert page.work() <= work + 1 or name == "distribution", "an equal press measures nothing"


def test_an_experiment_that_another_replaces_says_so_and_keeps_its_points(page):
    gate = threading.Event()  # no unit after the first with points begins before the other press
    page = page("sweep", before=lambda count: count > 1 and gate.wait(20))
    updates, kept = page.press_until_points(), page.values()
    page.experiment.begin(VISITOR, PageState())
    gate.set()
    assert "Another experiment of yours took its place" in notice_of(list(updates)[-1])["text"]
    assert page.values() == kept and not page.is_running()


def test_a_stop_names_the_run_under_way_and_the_runs_that_are_kept(page, monkeypatch):
    page = page("sweep")
    list(page.press())
    steps = [Step(2, 6, result=page.state.result), Step(3, 6, "the next turn")]
    monkeypatch.setattr(page.experiment, "reports", lambda *_: iter(steps))
    *_, last = page.press("all")
    assert notice_of(last)["text"].startswith("Stopped at run 4 of 6, with 2 kept.")


@pytest.mark.parametrize(("name", "how"), [("sweep", "all"), ("users", "all"), ("compare", "again")])
def test_start_over_measures_everything_anew(page, name, how):
    page = page(name)
    page.worker.step = 0.0
    list(page.press())
    before, work = page.values(), page.work()
    list(page.press(how))
    assert page.is_complete() and page.work() == 2 * work
    assert name == "compare" or not page.values().items() & before.items(), "other times"


@pytest.mark.parametrize(
    ("name", "empty"), [("sweep", {"cells": ()}), ("users", {"rows": {}}), ("theory", {"points": {}})]
)
def test_own_result_stays_until_the_next_press_has_a_point(page, monkeypatch, name, empty):
    page = page(name)
    page.worker.step = 0.0
    list(page.press())
    own = page.state.result
    monkeypatch.setattr(page.experiment, "reports", lambda *_: iter([Step(0, 3, result=replace(own, **empty))]))
    updates = list(page.press(tokens=32))  # another plan, stopped before its first point
    assert notice_of(updates[-1])["text"].endswith("Below is still the earlier result.")
    assert {str(part) for update in updates for part in update[1:]} == {str(SKIP)} and page.state.result is own
    assert all(button["interactive"] for button in page.experiment.end(page.state)[2:5])


@pytest.mark.parametrize("name", CASES)
def test_a_reloaded_form_is_filled_in_again_beside_the_recorded_result(name):
    page = Page(name)
    kept = [value for value in short_form(name, page.experiment) if not isinstance(value, Session)]
    *updates, mark = page.experiment.restore(kept)
    assert [update["value"] for update in updates[: len(kept)]] == kept
    told = json.loads(mark)
    assert told["kind"] == "recorded" and " Recorded on " in told["text"]
    assert told["text"].startswith(f"Your settings are back. Press {page.experiment.RUN} to ")
    gone = ["another/pair" if value == PAIR else value for value in kept]
    assert gone == kept or page.experiment.restore(gone) is SKIP, "its models are no longer here"


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_a_second_press_takes_the_page_over(page, name):
    page = page(name)
    first = page.press_until_points()
    page.worker.step = 0.0
    second = page.press()
    next(second)
    assert list(first) == [] and page.is_running()
    list(second)
    assert page.is_complete() and not page.is_running()


def test_a_wrong_input_is_answered_without_a_word_on_earlier_points(page):
    page = page("sweep")
    list(page.press())
    last = list(page.press(methods=[]))[-1]
    assert notice_of(last)["text"] == "Choose at least one method." and page.is_complete()


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_an_error_keeps_the_points_and_the_next_press_works(page, name):
    gone = Unavailable("The device is gone; plug it in again.")

    def fail(count):
        if count == 2:
            raise gone

    page = page(name, before=fail, fail=gone)
    changes = {"pair": PAIR, "top_k": 3, "length": 2, "runs": 20} if name == "distribution" else {}
    last = list(page.press(**changes))[-1]
    assert notice_of(last)["kind"] == "error" and notice_of(last)["text"] == f"{gone} {page.experiment.REMAINS}"
    assert page.values() and not page.is_complete()
    page.worker.fail, page.worker.step = None, 0.0
    list(page.press(**changes))
    assert page.is_complete()


@pytest.mark.parametrize(
    ("name", "kind", "place", "again"),
    [
        ("sweep", Cell, ("code", "ngram"), {("code", "ngram"), ("code", "none")}),
        ("users", UsersRow, (2, "ngram"), {(2, "ngram"), (2, "none")}),
        ("theory", Point, (0.5, 2), {(0.5, 2)}),
    ],
)
def test_noise_is_measured_again_with_plain_decoding_beside_it(page, monkeypatch, name, kind, place, again):
    page = page(name)
    list(page.press())
    before, wrong, sound = page.values(), page.case.points(page.state.result)[place], kind.measured.fget

    def measured(own):
        speedup = sound(own)
        return speedup and replace(speedup, ceiling=0.0 if own == wrong else 99.0)

    monkeypatch.setattr(kind, "measured", property(measured))
    list(page.press("noise"))
    assert page.is_complete() and {at for at, value in page.values().items() if value != before[at]} == again


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("sweep", {"methods": []}, "at least one method"),
        ("sweep", {"kinds": [], "own": "  "}, "kind of text"),
        ("sweep", {"gammas": ["x"]}, "Draft lengths γ: choose among the boxes"),
        ("sweep", {"own": "x" * 9000}, "9,000 characters"),
        ("users", {"numbers": None}, "at least one number of users"),
        ("users", {"numbers": "1, many"}, "Users at once must be a whole number"),
        ("users", {"numbers": "1,1000000"}, "is 1,000,000; choose from 1 to 32"),
        ("users", {"numbers": "1 2 3 4 5 6 7 8 9"}, "at most 8 numbers"),
        ("users", {"contexts": []}, "kind of prompts"),
        ("users", {"gamma": 99}, "Draft length γ: choose one of the list"),
        ("theory", {"alphas": []}, "at least one α"),
        ("theory", {"alphas": [0.55]}, "among the boxes"),
        ("theory", {"repeats": 99}, "Repeats is 99; choose from 1 to 5"),
        ("theory", {"tokens": 1_000}, "Tokens of a run is 1,000; choose from 16 to 192"),
        ("compare", {"gamma-2": 99}, "Run 2: gamma is 99"),
        ("compare", {"temperature-3": None}, "Run 3: Temperature is empty"),
        ("compare", {"pair": "giant"}, "giant needs about 900 GB"),
        ("compare", {"shown": 1}, "Choose 2 to 4 runs"),
        ("distribution", {"temperature": 0}, "one outcome and nothing to test"),
        ("distribution", {"runs": None}, "Runs is empty"),
        ("distribution", {"rule": "nonsense"}, "no rule 'nonsense'"),
        ("distribution", {"pair": PAIR, "rule": "raw-q"}, "cannot show this mistake"),
        ("distribution", {"pair": PAIR, "prompt": " "}, "prompt is empty"),
    ],
)
def test_nonsense_is_refused_in_a_sentence_and_reaches_no_engine(name, changes, words):
    page = Page(name)
    last = list(page.press(**changes))[-1]
    assert notice_of(last)["kind"] == "error" and words in notice_of(last)["text"] and not page.work()


@pytest.mark.parametrize("name", ["sweep", "users", "theory", "distribution"])
def test_a_server_without_experiments_says_so(name):
    changes = {"pair": PAIR, "method": "lm"} if name == "distribution" else {}
    last = list(Page(name, lab_seconds=0).press(**changes))[-1]
    assert "offers no experiments that need a model" in notice_of(last)["text"]


@pytest.mark.parametrize("seconds", [0, 60])
def test_run_is_disabled_beside_the_reason_where_it_would_be_refused(seconds):
    with gr.Blocks() as demo:
        lab(Service(FakeEngine(), Limits(lab_seconds=seconds)), gr.State())
    blocks = {str(each.elem_id): each for each in demo.blocks.values()}
    run = {name: each.interactive for name, each in blocks.items() if name.endswith("-run")}
    refused = {"answer-run", "sweep-run", "users-run", "theory-run"}
    assert len(run) == 6 and {name for name, enabled in run.items() if not enabled} == (set() if seconds else refused)
    texts = [str(each.value) for each in demo.blocks.values() if isinstance(each, gr.HTML)]
    reasons = [text for text in texts if "offers no experiments" in text]
    assert len(reasons) == (0 if seconds else len(refused))
    assert all("<code>python -m engine answer FILE.jsonl" in each for each in reasons)
    over = [each for name, each in blocks.items() if name.endswith(("-over", "-restart"))]
    assert len(over) == 4 and not any(button.interactive for button in over), "there is no point to start over from"
    if not seconds:
        assert all("recorded" in blocks[f"{name}-recorded"].value for name in ("answer", "sweep", "users", "theory"))
        assert blocks["answer-recordings"].interactive is not False, "recordings of a server can be opened"


def test_the_time_limit_is_said(page):
    page = page("theory", before=lambda count: count == 2 and time.sleep(0.4), lab_seconds=0.3)
    assert "may take up to 0.3 s" in notice_of(list(page.press())[-1])["text"] and not page.is_complete()


def test_others_get_their_turn_between_two_points(page):
    page, seen = page("sweep"), []
    runs = page.experiment.service.runs

    def run():
        config = RunConfig("between", method="none", gamma=0, max_new_tokens=4)
        with runs.request("b") as request:
            seen.append(list(runs.run(request, with_baseline(config))))

    thread = threading.Thread(target=run)
    for _ in page.press(each=4):
        if page.values() and not thread.ident:
            thread.start()
        if seen:
            page.experiment.stop(VISITOR)
    thread.join(60)
    assert seen and not page.is_complete(), "the other visitor waited for the whole sweep"
