"""The theory's values: the visitor's run as a point, the points measured here, their tables and files."""

import csv
import io
import json
from dataclasses import replace

import pytest
from fake_worker import recorded
from sample_traces import round_, small, token

from app.jobs.visitor import Session
from app.lab.experiment import PageState
from app.lab.theory import exits, view
from app.lab.theory.handlers import curves, parse_form
from app.lab.theory.request import DeviceCosts, Point, PointPlan, PointSet
from engine.bench.sample import PairedRun, Sample
from engine.errors import BadInput
from engine.trace.events import CostModel
from engine.trace.metrics import compute_metrics
from engine.trace.speedup_model import idealised_speedup
from engine.trace.trace import Trace

NOTHING_MEASURED = PointSet()
MODEL = CostModel(0.1, {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.7}, 256, 0.03, 0.01)


def told(run, baseline=None, own=True, measured=NOTHING_MEASURED, gammas=()) -> dict:
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
    found, numbers = told(run, plain), compute_metrics(run)
    assert found["own"] and found["alpha"] == pytest.approx(numbers.alpha.value, rel=1e-5)
    assert found["v"] == {"1": 1.0, "2": 1.1, "4": 1.3, "8": 1.7} and found["c"] == 0
    ratio = numbers.tokens_per_second / compute_metrics(plain).tokens_per_second
    assert found["measured"] == pytest.approx(ratio, rel=1e-5)
    assert found["predicted"] == pytest.approx(numbers.predicted_speedup, rel=1e-5)
    assert f"Measured: {ratio:.2f}×" in found["words"] and "n-gram lookup" in found["words"]


def test_gamma_is_the_mean_of_the_rounds_that_drafted():
    run = small()  # one round of three drafts, one without
    found = told(run)
    assert found["gamma"] == 3.0 and "1 of 2 rounds drafted, 3.0 tokens each" in found["words"]
    assert found["alpha"] == 0.5 and "1 of 2 tested drafts" in found["words"]
    run = replace(run, rounds=(round_(0, [token("rejected"), token("resampled")], [0]),))
    assert told(run)["alpha"] == 0.0 and told(run)["gamma"] == 1.0


def test_without_a_whole_baseline_nothing_was_measured():
    run, plain = recorded(), recorded("none", 0)
    stopped = replace(plain, finished=replace(plain.finished, reason="cancelled"))
    for baseline in (None, stopped):
        found = told(run, baseline)
        assert found["measured"] is None and found["predicted"] > 1
        assert "no speedup was measured" in found["words"]


def test_plain_decoding_has_costs_and_no_point():
    found = told(recorded("none", 0))
    assert found["alpha"] is found["gamma"] is found["measured"] is found["predicted"] is None
    assert found["v"]["1"] == 1.0 and "has no α" in found["words"]


@pytest.mark.parametrize(
    "costs",
    [
        None,
        CostModel(-0.1, {1: 1.0}, 256, 0.03),
        CostModel(float("nan"), {1: 1.0}, 256, 0.03),
        CostModel(0.1, {1: 1.0, 4: float("inf")}, 256, 0.03),
    ],
)
def test_costs_that_no_device_has_are_left_out(costs):
    found = told(with_costs(costs))
    assert found["v"] is found["c"] is found["predicted"] is None and found["alpha"] > 0
    assert "costs were not measured" in found["words"]


def test_a_busy_machine_and_passes_cheaper_than_a_single_token_are_said():
    for word, odd, usual in (
        ("busy", {"spread": 0.5}, {"spread": 0.05}),
        ("busy", {"v": {1: 1.0, 4: 0.8, 8: 1.2}}, {"v": {1: 1.0, 4: 0.98, 8: 1.2}}),
        ("4 tokens at once really are quicker", {"v": {1: 1.0, 4: 0.93, 8: 1.2}}, {"v": {1: 1.0, 4: 0.99, 8: 1.2}}),
        ("1 and 4 tokens cannot be told apart", {"v": {1: 1.0, 4: 0.99, 8: 1.2}}, {"v": {1: 1.0, 4: 1.01, 8: 1.2}}),
    ):
        assert word in told(with_costs(replace(MODEL, **odd)))["where"]
        assert word not in told(with_costs(replace(MODEL, **usual)))["where"]


def test_nothing_a_file_claims_becomes_a_tag():
    run = recorded()
    run = replace(run, started=replace(run.started, device="<script>{{1+1}}"))
    assert "<" not in view.curves(run, None, True, NOTHING_MEASURED) and told(run)["where"].count("<script>") == 1


def test_the_recorded_run_stands_in_until_there_is_one():
    first = json.loads(curves(Session(), PageState()))
    assert first["own"] is False and first["alpha"] > 0 and first["words"].startswith("No run of yours yet")
    run = recorded()
    assert json.loads(curves(Session(run), PageState()))["own"] is True
    assert json.loads(curves(Session(Trace(run.started)), PageState()))["own"] is False
    assert told(None, own=False) == {"own": False, "words": view.NO_RUN, "here": None}


# ── points measured here ──


def test_points_come_with_the_costs_their_curves_are_drawn_from():
    here = told(recorded(), measured=points(point(0.8, 4, 1.5), point(0.5, 2, 0.9)), gammas=(1,))["here"]
    assert here["gammas"] == [1, 2, 4] and here["points"] == [[0.5, 2, 0.9], [0.8, 4, 1.5]]
    assert (here["c"], here["v"]) == (0.1, {"1": 1.0, "2": 1.1, "4": 1.3, "8": 1.7})
    assert "on cpu, fp32, at 256 tokens of context" in here["where"] and "One plain step took 30 ms" in here["where"]
    assert "busy" in told(recorded(), measured=points(model=replace(MODEL, spread=0.5)))["here"]["where"]
    assert told(recorded())["here"] is None, "no costs, no curve"
    odd = told(recorded(), measured=points(model=replace(MODEL, v={1: 1.0, 2: 0.5})))["here"]
    assert odd["v"] == {"1": 1.0, "2": 1.0} and "busy" in odd["where"], "no pass takes half the time of a plain one"


def test_every_point_comes_once_before_any_comes_twice():
    plan, measured, order = PointPlan((0.3, 0.7), (1, 2), repeats=2), {}, []
    for place in plan.missing(measured):
        order.append(place)
        earlier = measured[place].turns if place in measured else ()
        measured[place] = replace(point(*place, 1.0), turns=(*earlier, "turn"))
    once = [(0.3, 1), (0.7, 1), (0.3, 2), (0.7, 2)]
    assert order == [*once, *once] and plan.left(measured) == 0 and plan.turns == 8
    assert PointPlan((0.3, 0.9), (1, 4)).left(measured) == 3, "only missing points are measured"


@pytest.mark.parametrize(
    ("alphas", "gammas", "repeats", "words"),
    [
        ([], [2], 1, "at least one α"),
        ([0.5], [], 1, "at least one draft length"),
        ([0.55], [2], 1, "among the boxes"),
        ([0.5], [3], 1, "among the boxes"),
        ([0.5], [2], 99, "Repeats is 99; choose from 1 to 5"),
        ([0.5], [2], 1.5, "whole number"),
        ([0.5], [2], None, "whole number"),
        ([0.5], [2], float("nan"), "whole number"),
    ],
)
def test_nonsense_is_refused_in_words(alphas, gammas, repeats, words):
    with pytest.raises(BadInput, match=words):
        parse_form("tiny", "lm", alphas, gammas, 24, repeats)


def cells(table: str) -> list:
    return json.loads(table)["rows"]


def test_the_table_has_every_point_and_marks_the_fastest():
    certain = replace(point(0.8, 2, 1.4), low=1.3, high=1.5)
    slower = [replace(point(0.5, 2, 0.9), low=0.8, high=1.0), replace(point(0.8, 4, 1.2, turns=3), low=1.1, high=1.25)]
    rows = cells(view.points_table(points(certain, *slower)))
    assert [(row[0][0], row[1][0], row[-1][0]) for row in rows] == [
        ("0.5", "2", "1"), ("0.8", "2", "1"), ("0.8", "4", "3")
    ]  # fmt: skip
    predicted = expected(0.5, 2)
    assert [cell for cell, _ in rows[0][5:8]] == ["0.90× (0.80–1.00)", f"{predicted:.2f}×", f"{0.9 / predicted:.2f}"]
    assert [row[5] for row in rows if row[5][1]] == [["1.40× (1.30–1.50)", "best"]]
    close = cells(view.points_table(points(replace(certain, low=1.2), *slower)))
    assert not any(row[5][1] for row in close), "no star inside the noise"
    slow = cells(view.points_table(points(point(0.5, 2, 0.9))))
    assert slow[0][5] == ["0.90×", ""], "nothing slower than plain decoding is a best"


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        ((0.8, 0.9, 1.1), "between α = 0.5 and 0.7"),
        ((0.8, 0.9, 0.95), "at none measured, up to 0.7"),
        ((1.1, 1.15, 1.2), "at every α measured, from 0.3"),
        ((1.0, 1.1, 1.2), "from α = 0.5 on; below it no difference"),
        ((1.0, 1.02, 0.98), "no difference from plain decoding"),
        ((0.8, 0.9, 9.0), "at none measured, up to 0.5"),
        ((0.8, 1.1, 0.9), "too noisy"),
        ((1.1, 0.9, 1.2), "too noisy"),
    ],
)
def test_the_break_even_is_no_more_exact_than_the_points(speeds, words):
    measured = points(*(point(alpha, 2, speed) for alpha, speed in zip((0.3, 0.5, 0.7), speeds, strict=True)))
    assert words in cells(view.break_even_table(measured))[0][2][0]


def test_the_files_hold_the_points_and_their_single_runs():
    measured = points(point(0.5, 2, 0.9, turns=2), pair="=cmd()", device="@here")
    (row,) = csv.DictReader(io.StringIO(view.to_csv(measured)))
    assert row["pair"] == "'=cmd()" and row["device"] == "'@here", "a spreadsheet would run it"
    assert float(row["speedup"]) == 0.9 and tuple(row) == view.COLUMNS
    content = json.loads(view.to_json(measured))
    assert content["costs"]["v"]["8"] == 1.7 and content["costs"]["precision"] == "fp32"
    assert content["points"][0]["speedup"] == 0.9 and len(content["points"][0]["turns"]) == 2
    assert content["points"][0]["turns"][0]["plain"]["seconds"] == 1.0


def test_the_summary_never_calls_a_slowdown_a_gain():
    assert view.summary(points(point(0.5, 2, 0.9), point(0.6, 2, 0.95))).startswith("No point was certainly faster")
    assert view.summary(points(point(0.5, 2, 0.9), point(0.9, 2, 1.6))).startswith(
        "1× was reached between α = 0.5 and 0.9. The fastest"
    )


def test_a_point_that_cannot_be_is_shown_nowhere():
    wrong = point(0.9, 2, 3.21)  # at two tokens a pass
    both = points(point(0.5, 2, 0.9), wrong)
    shown = view.summary(both) + view.points_table(both) + view.break_even_table(both)
    shown += json.dumps(told(recorded(), measured=both)["here"])
    assert "3.2" not in shown and "noise" in shown and "Measure again" in view.summary(points(wrong))


def test_points_far_from_their_curve_are_called_noisy():
    for factor, far in ((1, False), (1.25, False), (2.5, True), (0.5, True)):
        several = point(0.9, 2, factor * expected(0.9, 2)), point(0.9, 4, expected(0.9, 4))
        both = points(*(replace(each, tau=9.0) for each in several))
        assert (view.NOISY in view.summary(both)) is far


def test_the_recorded_exits_show_each_layer_and_the_head():
    record = json.loads(exits.RECORDED.read_text())
    found = json.loads(exits.recorded())["figures"]["exits"]
    agrees, speedup, head = found["data"]
    assert agrees["x"] == speedup["x"] == list(range(31)) and agrees["y"][-1] == 1.0
    (trained,) = (each for each in record["exits"] if each["is_trained"])
    assert head["x"] == [2, 2] and head["y"] == pytest.approx([trained["agreement"], trained["predicted"]], rel=1e-3)
    best = max(each["predicted"] for each in record["exits"][:30])
    assert f"come to {best:.2f}× plain" in found["note"] and record["device"] in found["note"]
