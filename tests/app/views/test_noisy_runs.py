"""Made-up noise through every view of a run: no impossible number on a tile, in a chart, a table or a recipe."""

import json
from dataclasses import replace

import pytest
from fake_worker import recorded

from app.lab.compare import view as compare_view
from app.lab.compare.columns import Column
from app.lab.theory import view as theory_view
from app.lab.theory.work import PointSet
from app.playground.conclusion import conclusion
from app.views import player_feed, predictions, run_charts, tiles
from app.views.engine_recipes import outcome_sentence
from engine.config import RunConfig
from engine.trace.costs import CostModel
from engine.trace.metrics import compare, compute_metrics
from engine.trace.noise import ceiling
from engine.trace.trace import Trace

NOISY = CostModel(0.02, {1: 1.0, 2: 0.71, 3: 0.8, 4: 0.9, 6: 0.97, 8: 1.4, 16: 2.5}, 256, 0.03, spread=0.4)


def clocked(trace: Trace, factor: float, costs=None, busy: float | None = None) -> Trace:
    """Returns the run on a clock that runs ``factor`` times as long."""
    rounds = tuple(replace(each, start=factor * each.start, end=factor * each.end) for each in trace.rounds)
    started = replace(trace.started, costs=costs or trace.started.costs)
    finished = replace(trace.finished, extra={} if busy is None else {"busy": busy})
    return Trace(started, rounds, finished)


@pytest.fixture
def run() -> Trace:
    return clocked(recorded("ngram", 4), 0.25, NOISY, busy=0.48)


@pytest.fixture
def plain() -> Trace:
    return clocked(recorded("none", 0), 1.0, NOISY)


def everything(run: Trace, plain: Trace) -> str:
    """Each text about one run that a visitor can see, in one."""
    ratio = tiles.speedup(run, plain)
    texts = [tiles.tiles(run, plain), tiles.verdict(run, plain), player_feed.numbers(run, plain)]
    texts += [*run_charts.complete(run, plain), *conclusion(run, plain), outcome_sentence(ratio, "cpu")]
    texts += [theory_view.curves(run, plain, True, PointSet())]
    columns = [Column(RunConfig("Hi", "p", "none", 0), plain), Column(RunConfig("Hi", "p", "ngram", 4), run)]
    texts += [compare_view.table(columns), compare_view.full_grid("x", columns), *compare_view.conclusion(columns)]
    return "\n".join(texts)


def test_a_speedup_above_its_tokens_a_pass_is_shown_nowhere(run, plain):
    ratio = compare(run, plain).speedup
    assert ratio.value > ceiling(compute_metrics(run).tau.value), "the noise that this test is about"
    shown = everything(run, plain)
    assert f"{ratio.value:.2f}" not in shown and f"{ratio.value:.3}" not in shown
    tile = json.loads(tiles.tiles(run, plain))
    assert tile["tiles"]["speedup"][0] == "noise" and tile["tone"] == "noise"
    assert "measure again" in tile["tiles"]["speedup"][1] and "Measure again" in tiles.verdict(run, plain)
    assert "Other programs took 48\u00a0% of the processor" in shown


def test_a_speedup_that_can_be_is_shown(run, plain):
    usual = clocked(run, 3.0)
    ratio = compare(usual, plain).speedup
    assert ratio.is_possible and f"{ratio.value:.2f}×" in everything(usual, plain)
    assert "noise" not in everything(usual, plain).lower() and "Other programs" not in everything(usual, plain)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.9])
def test_predictions_by_costs_that_dip_stay_below_their_bounds(run, alpha):
    numbers = compute_metrics(run)
    assert numbers.predicted_speedup <= numbers.tau.value
    accepted = round(alpha * 400)
    share = replace(numbers.alpha, value=alpha, low=max(0.0, alpha - 0.03), high=min(1.0, alpha + 0.03))
    counts = numbers.counts | {"accepted": accepted, "rejected": 400 - accepted}
    curve = predictions.draw_idealised(run, replace(numbers, alpha=share, counts=counts)).data[0]
    assert max(curve["y"]) <= 1 / (1 - alpha) + 1e-6
    assert min(predictions.draw_scoring(run, None).data[0]["y"]) >= 1.0
    assert "busy" in predictions.draw_scoring(clocked(run, 1.0), None).note


def test_best_length_has_a_star_only_where_the_spread_leaves_one(run):
    numbers = compute_metrics(run)
    sure = replace(run, started=replace(run.started, costs=CostModel(0.6, {1: 1.0, 2: 1.3, 16: 9.0}, 256, 0.03)))
    tight = replace(numbers, alpha=replace(numbers.alpha, value=0.95, low=0.945, high=0.955))
    for trace, known, is_certain in ((sure, tight, True), (run, numbers, False)):
        figure = predictions.draw_idealised(trace, known)
        assert (figure.data[1]["marker"]["symbol"] == "star") is is_certain
        assert ("Best: γ = 1 with" in figure.note) is is_certain
        assert ("Too close to name a best" in figure.note) is not is_certain
