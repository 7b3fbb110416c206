"""The visitor's run as a point beside the theory, whatever that run was."""

import json
from dataclasses import replace

import pytest
from fake_worker import play
from traces import round_, small, token

from app.lab.theory import compared
from app.session import Session
from app.views.lab_theory import NOTHING, point
from engine.config import RunConfig
from engine.events import CostModel
from engine.statistics import statistics
from engine.trace import Trace, fold


def ran(**settings) -> Trace:
    return fold(play(RunConfig("Hi", **({"method": "ngram", "gamma": 4, "max_new_tokens": 60} | settings))))


def told(run, baseline=None, own=True) -> dict:
    return json.loads(point(run, baseline, own))


def with_costs(costs: CostModel | None) -> Trace:
    run = ran()
    return replace(run, started=replace(run.started, costs=costs))


def test_a_run_and_its_baseline_become_a_point():
    run, plain = ran(), ran(method="none", gamma=0)
    found, numbers = told(run, plain), statistics(run)
    assert found["own"] and found["alpha"] == pytest.approx(numbers.alpha.value, rel=1e-5)
    assert found["v"] == {"1": 1.0, "2": 1.1, "4": 1.3, "8": 1.7} and found["c"] == 0
    ratio = numbers.tokens_per_second / statistics(plain).tokens_per_second
    assert found["measured"] == pytest.approx(ratio, rel=1e-5)
    assert found["predicted"] == pytest.approx(numbers.predicted_speedup, rel=1e-5)
    assert f"Measured: {ratio:.2f}×" in found["words"] and "n-gram lookup" in found["words"]


def test_gamma_is_the_mean_of_the_rounds_that_drafted():
    run = small()  # one round of three drafts, one without
    found = told(run)
    assert found["gamma"] == 3.0 and "1 of 2 rounds drafted, 3.0 tokens each" in found["words"]
    assert found["alpha"] == 0.5 and "1 of 2 tested drafts" in found["words"]


def test_without_a_whole_baseline_nothing_was_measured():
    run, plain = ran(), ran(method="none", gamma=0)
    stopped = replace(plain, finished=replace(plain.finished, reason="cancelled"))
    for baseline in (None, stopped):
        found = told(run, baseline)
        assert found["measured"] is None and found["predicted"] > 1
        assert "no speedup was measured" in found["words"]


def test_plain_decoding_has_costs_and_no_point():
    found = told(ran(method="none", gamma=0))
    assert found["alpha"] is found["gamma"] is found["measured"] is found["predicted"] is None
    assert found["v"]["1"] == 1.0 and "has no α" in found["words"]


@pytest.mark.parametrize(
    "costs",
    [
        None,
        CostModel(-0.1, {1: 1.0}, 256, 0.03),
        CostModel(float("nan"), {1: 1.0}, 256, 0.03),
        CostModel(0.1, {1: 1.0, 2: 0.5}, 256, 0.03),  # a straight line down: wide passes would be free, then worse
        CostModel(0.1, {1: 1.0, 4: float("inf")}, 256, 0.03),
    ],
)
def test_costs_that_no_device_has_are_left_out(costs):
    found = told(with_costs(costs))
    assert found["v"] is found["c"] is found["predicted"] is None and found["alpha"] > 0
    assert "costs were not measured" in found["words"]


def test_a_busy_machine_is_told():
    assert "busy" in told(with_costs(CostModel(0.1, {1: 1.0}, 256, 0.03, spread=0.5)))["where"]
    assert "busy" not in told(with_costs(CostModel(0.1, {1: 1.0}, 256, 0.03, spread=0.05)))["where"]


def test_passes_cheaper_than_a_single_token_are_told():
    assert (
        "cheaper than a single token" in told(with_costs(CostModel(0.1, {1: 1.0, 4: 0.8, 8: 1.2}, 256, 0.03)))["where"]
    )
    assert "cheaper" not in told(with_costs(CostModel(0.1, {1: 1.0, 4: 0.98, 8: 1.2}, 256, 0.03)))["where"]


def test_nothing_a_file_claims_becomes_a_tag():
    run = ran()
    run = replace(run, started=replace(run.started, device="<script>{{1+1}}"))
    assert "<" not in point(run, None, own=True) and told(run)["where"].count("<script>") == 1


def test_the_recorded_run_stands_in_until_there_is_one():
    first = json.loads(compared(Session()))
    assert first["own"] is False and first["alpha"] > 0 and first["words"].startswith("No run of yours yet")
    run = ran()
    assert json.loads(compared(Session(run)))["own"] is True
    empty = Trace(run.started)
    assert json.loads(compared(Session(empty)))["own"] is False


def test_with_no_recording_either_the_curves_stand_alone():
    assert told(None, own=False) == {"own": False, "words": NOTHING}


def test_a_run_of_only_rejected_drafts_still_has_a_point():
    run = replace(small(), rounds=(round_(0, [token("rejected"), token("resampled")], [0]),))
    assert told(run)["alpha"] == 0.0 and told(run)["gamma"] == 1.0
