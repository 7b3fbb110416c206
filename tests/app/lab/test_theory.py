"""The theory's values: the visitor's run as a point, points measured on a real engine, their tables and files."""

import csv
import io
import json
from dataclasses import replace

import pytest
from fake_worker import FakeEngine, recorded
from lab_pages import VISITOR, WorkingWorker, notice_of, rows, short_form

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.lab.experiment import PageState
from app.lab.theory import view
from app.lab.theory.page import Theory
from app.lab.theory.work import DeviceCosts, PointPlan, PointSet
from app.server.limits import Limits
from engine.tools.bench.sample import PairedRun, Point, Sample
from engine.trace.costs import CostModel
from engine.trace.metrics import compute_metrics
from engine.trace.speedup_model import idealised_speedup
from engine.trace.trace import Trace

NOTHING_MEASURED = PointSet()
MODEL = CostModel(0.1, {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.7}, 256, 0.03, 0.01)


def curves_of(run, baseline=None, own=True, measured=NOTHING_MEASURED, gammas=()) -> dict:
    return json.loads(view.curves(run, baseline, own, measured, gammas))


def point(alpha, gamma, speedup, turns=1) -> Point:
    ours = Sample(48, 1.0 / speedup, 1.0 / speedup, 48, 0.1, 20, ((28, 40),))
    one = PairedRun(Sample(48, 1.0, 1.0, 48, 0.1, 48), ours)
    return Point(alpha, gamma, alpha, 2.0, speedup, (one,) * turns)


def points(*several: Point, pair="tiny", device="cpu", model=MODEL) -> PointSet:
    return PointSet(pair, "lm", 48, DeviceCosts(device, "fp32", model), {p.place: p for p in several})


def expected(alpha, gamma) -> float:
    return idealised_speedup(alpha, gamma, MODEL.c, MODEL.v)


def with_costs(costs: CostModel | None) -> Trace:
    run = recorded()
    return replace(run, started=replace(run.started, costs=costs))


def test_a_run_and_its_baseline_become_a_point():
    run, plain = recorded(), recorded("none", 0)
    found, numbers = curves_of(run, plain), compute_metrics(run)
    assert found["own"] and found["alpha"] == pytest.approx(numbers.alpha.value, rel=1e-5)
    assert found["v"] == {"1": 1.0, "2": 1.1, "4": 1.3, "8": 1.7} and found["c"] == 0
    ratio = numbers.tokens_per_second / compute_metrics(plain).tokens_per_second
    assert found["measured"] == pytest.approx(ratio, rel=1e-5)
    assert found["predicted"] == pytest.approx(numbers.predicted_speedup, rel=1e-5)
    assert f"Measured: {ratio:.2f}×" in found["words"] and "n-gram lookup" in found["words"]
    stopped = replace(plain, finished=replace(plain.finished, reason="cancelled"))
    for found in (curves_of(run), curves_of(run, stopped)):
        assert found["measured"] is None and "no speedup was measured" in found["words"]


@pytest.mark.parametrize("method", ["medusa", "lookahead", "auto"])
def test_curves_leave_out_a_run_whose_rounds_they_do_not_describe(method):
    run = recorded()
    if method == "medusa":
        run = replace(run, started=replace(run.started, config=run.started.config | {"method": method}))
    elif method == "lookahead":
        run = replace(run, rounds=tuple(replace(each, parents=(0,) * len(each.parents)) for each in run.rounds))
    else:
        by = [replace(each, drafter="lm" if each.index % 2 else "ngram") for each in run.rounds]
        run = replace(run, rounds=tuple(by))
    found = curves_of(run)
    assert (found["alpha"], found["gamma"]) == (None, None) and "The curves are about chains" in found["words"]
    assert "c = " not in found["words"]


def test_a_busy_machine_and_passes_cheaper_than_a_single_token_are_said():
    for word, odd, usual in (
        ("busy", {"spread": 0.5}, {"spread": 0.05}),
        ("busy", {"v": {1: 1.0, 4: 0.8, 8: 1.2}}, {"v": {1: 1.0, 4: 0.98, 8: 1.2}}),
        ("4 tokens at once really are quicker", {"v": {1: 1.0, 4: 0.93, 8: 1.2}}, {"v": {1: 1.0, 4: 0.99, 8: 1.2}}),
        ("1 and 4 tokens cannot be told apart", {"v": {1: 1.0, 4: 0.99, 8: 1.2}}, {"v": {1: 1.0, 4: 1.01, 8: 1.2}}),
    ):
        assert word in curves_of(with_costs(replace(MODEL, **odd)))["where"]
        assert word not in curves_of(with_costs(replace(MODEL, **usual)))["where"]


def test_the_recorded_run_stands_in_until_there_is_one():
    handlers = Theory(Service(FakeEngine(), Limits()))
    first = json.loads(handlers.curves(Session(), PageState()))
    assert first["own"] is False and first["alpha"] > 0 and first["words"].startswith("No run of yours yet")
    run = recorded()
    assert json.loads(handlers.curves(Session(run), PageState()))["own"] is True
    assert json.loads(handlers.curves(Session(Trace(run.started)), PageState()))["own"] is False
    assert curves_of(None, own=False) == {"own": False, "words": view.NO_RUN, "here": None}


def test_points_come_with_the_costs_their_curves_are_drawn_from():
    here = curves_of(recorded(), measured=points(point(0.8, 4, 1.5), point(0.5, 2, 0.9)), gammas=(1,))["here"]
    assert here["gammas"] == [1, 2, 4] and here["points"] == [[0.5, 2, 0.9], [0.8, 4, 1.5]]
    assert (here["c"], here["v"]) == (0.1, {"1": 1.0, "2": 1.1, "4": 1.3, "8": 1.7})
    assert "on cpu, fp32, at 256 tokens of context" in here["where"] and "One plain step took 30 ms" in here["where"]
    assert "busy" in curves_of(recorded(), measured=points(model=replace(MODEL, spread=0.5)))["here"]["where"]
    assert curves_of(recorded())["here"] is None, "no costs, no curve"
    odd = curves_of(recorded(), measured=points(model=replace(MODEL, v={1: 1.0, 2: 0.5})))["here"]
    assert odd["v"] == {"1": 1.0, "2": 1.0} and "busy" in odd["where"], "no pass takes half the time of a plain one"


def test_stopped_points_report_other_programs():
    shared = PairedRun(Sample(*[1] * 6, busy=0.5), Sample(*[1] * 6))
    assert "Other programs took 50\\u00a0%" in view.points_table(points(replace(point(0.8, 2, 1.4), turns=(shared,))))


def test_every_point_comes_once_before_any_comes_twice():
    plan, measured, order = PointPlan((0.3, 0.7), (1, 2), repeats=2), {}, []
    while missing := plan.missing(measured):
        order.append(place := missing[0])
        earlier = measured[place].turns if place in measured else ()
        measured[place] = replace(point(*place, 1.0), turns=(*earlier, "turn"))
    once = [(0.3, 1), (0.7, 1), (0.3, 2), (0.7, 2)]
    assert order == [*once, *once] and not plan.missing(measured) and plan.turns == 8
    assert len(PointPlan((0.3, 0.9), (1, 4)).missing(measured)) == 3, "only missing points are measured"


def test_the_table_has_every_point_and_marks_the_fastest():
    certain = replace(point(0.8, 2, 1.4), low=1.3, high=1.5)
    slower = [replace(point(0.5, 2, 0.9), low=0.8, high=1.0), replace(point(0.8, 4, 1.2, turns=3), low=1.1, high=1.25)]
    table, predicted = view.points_table(points(certain, *slower)), expected(0.5, 2)
    assert [(row[0], row[1], row[-1]) for row in rows(table)] == [
        ("0.5", "2", "1"), ("0.8", "2", "1"), ("0.8", "4", "3")
    ]  # fmt: skip
    from_tau = 2.0 / (2 * MODEL.c + 1.2)  # every point of these tests has two tokens per pass
    seen = [f"{predicted:.2f}×", f"{from_tau:.2f}×", f"{0.9 / from_tau:.2f}"]
    assert rows(table)[0][5:9] == ["0.90× (0.80–1.00)", *seen]
    assert json.loads(table)["rows"][1][5] == ["1.40× (1.30–1.50)", "best"] and table.count('"best"') == 1
    for unsure in (points(replace(certain, low=1.2), *slower), points(point(0.5, 2, 0.9))):
        assert '"best"' not in view.points_table(unsure), "inside the noise, or slower than plain decoding"


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        ((0.8, 0.9, 1.1), "between α = 0.5 and 0.7"),
        ((1.1, 1.15, 1.2), "at every α measured, from 0.3"),
        ((1.0, 1.1, 1.2), "from α = 0.5 on; below it no difference"),
        ((0.8, 0.9, 9.0), "at none measured, up to 0.5"),
        ((1.1, 0.9, 1.2), "too noisy"),
    ],
)
def test_the_break_even_is_no_more_exact_than_the_points(speeds, words):
    measured = points(*(point(alpha, 2, speed) for alpha, speed in zip((0.3, 0.5, 0.7), speeds, strict=True)))
    assert words in rows(view.break_even_table(measured))[0][2]


def test_the_files_hold_the_points_and_their_single_runs():
    measured = points(point(0.5, 2, 0.9, turns=2), pair="=cmd()", device="@here")
    (row,) = csv.DictReader(io.StringIO(view.files(measured, {"device": "there", "saved": "today"})[0]))
    assert row["pair"] == "'=cmd()" and row["device"] == "'@here", "a spreadsheet would run it"
    assert float(row["speedup"]) == 0.9 and tuple(row) == (*view.COLUMNS, "device", "saved", "precision")
    content = json.loads(view.files(measured, {"device": "here"})[1])
    assert content["costs"]["v"]["8"] == 1.7 and content["costs"]["precision"] == "fp32"
    assert content["points"][0]["speedup"] == 0.9 and len(content["points"][0]["turns"]) == 2
    assert content["points"][0]["turns"][0]["plain"]["seconds"] == 1.0


def test_a_point_that_cannot_be_is_shown_nowhere():
    wrong = point(0.9, 2, 3.21)  # at two tokens per pass
    both = points(point(0.5, 2, 0.9), wrong)
    shown = view.verdict(both) + view.points_table(both) + view.break_even_table(both)
    shown += json.dumps(curves_of(recorded(), measured=both)["here"]) + view.files(both, {})[0]
    assert "3.2" not in shown and "noise" in shown and "Measure again" in view.verdict(points(wrong))


def test_more_points_and_repeats_continue_but_other_settings_do_not(engine):
    worker, state = WorkingWorker(engine), PageState()
    handlers = Theory(Service(FakeEngine(worker), Limits()))

    def press(**changes) -> list:
        handlers.begin(VISITOR, state)
        return list(
            handlers.press()(VISITOR, state, *short_form("theory", handlers, **{"alphas": [0.1, 0.9]} | changes))
        )

    press()
    first, before = state.result, worker.units
    assert "had been measured" in notice_of(press()[-1])["text"]
    press(alphas=[0.1, 0.5, 0.9])
    assert state.result.points[0.9, 2] is first.points[0.9, 2] and (0.5, 2) in state.result.points
    assert worker.units == before + 2, "the costs, and one turn"
    press(repeats=2)
    twice = state.result.points[0.9, 2].turns
    assert twice[0] is first.points[0.9, 2].turns[0] and len(twice) == 2
    kept = state.result
    press(alphas=[])
    assert state.result is kept, "a refused form loses no points"
    press(alphas=[0.9], tokens=32)
    assert state.result.points.keys() == {(0.9, 2)} and state.result.tokens == 32
