"""Finished rounds correct what c and v promise, and known acceptance drops methods; by made-up clocks and costs."""

from itertools import cycle, islice

import pytest
from sample_traces import round_, token

from engine.config import METHODS
from engine.runtime.contest import known_acceptance, promise, without_a_chance
from engine.runtime.round_clock import FEWEST, RoundClock
from engine.trace.costs import CostModel

COSTS = CostModel(0.0, {1: 1.0, 2: 1.2, 3: 1.4}, 100, 0.01, draft_costs={"lm": 0.2})
PROMISED = {"": 1.0, "lm": 1.6, "ngram": 1.2}  # of a round with two steps, or with one draft


def rounds_of(name: str, *seconds: float, count: int = FEWEST, **settings):
    """Makes rounds that took the ``seconds`` in turn."""
    steps, parents = {"": (0, ()), "lm": (2, (0,)), "ngram": (0, (0,))}[name]
    tokens, known = [token("accepted")] * len(parents) + [token()], {"draft_steps": steps, "drafter": name}
    rounds = [round_(i, tokens, parents, **(known | settings)) for i in range(count)]
    for each, lasts in zip(rounds, islice(cycle(seconds), count), strict=True):
        object.__setattr__(each, "end", each.start + lasts)
    return rounds


def paces(*rounds, busy=0.1, method="auto") -> dict[str, float]:
    clock = RoundClock()
    for each in rounds:
        clock.learn(each, COSTS, method, busy)
    return {name: round(pace, 2) for name, pace in clock.paces.items()}


@pytest.mark.parametrize(
    ("rounds", "settings", "found"),
    [
        ([rounds_of("", 0.01), rounds_of("lm", 0.020)], {}, {"lm": 1.25}),  # it promised 0.016
        ([rounds_of("", 0.02), rounds_of("lm", 0.040)], {}, {"lm": 1.25}),  # all are half as fast
        ([rounds_of("", 0.01), rounds_of("lm", 0.0164)], {}, {}),  # too little to count
        ([rounds_of("", 0.01, 0.01, 0.09), rounds_of("lm", 0.02, 0.02, 0.5)], {}, {"lm": 1.25}),  # disturbed rounds
        (
            [rounds_of("", 0.01), rounds_of("lm", 0.9), rounds_of("ngram", 0.001)],
            {},
            {"lm": 1.6, "ngram": 0.62},
        ),  # bounds
        ([rounds_of("", 0.01), rounds_of("lm", 0.02, count=FEWEST - 1)], {}, {}),
        ([rounds_of("", 0.01, count=FEWEST - 1), rounds_of("lm", 0.02)], {}, {}),
        ([rounds_of("", 0.01), rounds_of("lm", 0.02)], {"busy": 0.2}, {}),
        ([rounds_of("", 0.01), rounds_of("lm", 0.02)], {"busy": None}, {}),
        ([rounds_of("", 0.01), rounds_of("lm", 0.02, rows=2)], {}, {}),  # others' tokens were in its passes
        ([rounds_of("", 0.01), rounds_of("lm", 0.02, reading=0.1)], {}, {}),
    ],
)
def test_clock_corrects_a_drafter_by_its_own_rounds(rounds, settings, found):
    assert paces(*rounds, **settings) == found


def test_rounds_of_a_run_with_one_method_teach_auto_too():
    assert paces(rounds_of("", 0.01), rounds_of("lm", 0.02, drafter=""), method="lm") == {"lm": 1.25}


def test_pace_stays_until_it_has_moved_and_forgets_old_rounds():
    clock = RoundClock()
    seen = []
    for lasts in (0.020, 0.0203, 0.0160):
        for _ in range(8):
            clock.learn(rounds_of("", 0.01) + rounds_of("lm", lasts), COSTS, "auto", 0.0)
        seen.append(round(clock.paces["lm"], 2))
    assert seen == [1.25, 1.25, 1.0]


def test_prediction_counts_the_pace_of_rounds_with_drafts_only():
    costs = CostModel(0.0, COSTS.v, 100, 0.01, draft_costs={"lm": 0.2}, paces={"lm": 1.25})
    for drafter, steps, drafts in (("lm", 2, 1), ("ngram", 0, 1)):
        slower = costs.paces.get(drafter, 1)
        assert costs.round_cost(drafter, steps, drafts) == pytest.approx(PROMISED[drafter] * slower)
    assert costs.round_cost("", 0, 0) == 1.0
    assert costs.predict([(3, 2, 1, "lm"), (1, 0, 0, "")]) == pytest.approx(4 / 3)


def test_no_pace_predicts_more_than_the_tokens_a_round():
    costs = CostModel(0.0, {1: 1.0, 2: 0.97, 3: 1.4}, 100, 0.01, paces={"ngram": 0.6})
    assert costs.round_cost("ngram", 0, 2) == 1.0
    assert costs.round_cost("ngram", 0, 1) == 0.97, "as it was measured, and no less"


CHEAP, DEAR = {1: 1.0, 8: 1.3, 16: 1.6}, {1: 1.0, 2: 2.0, 16: 16.0}
ALIKE = {"lm": {"chat": 0.5, "code": 0.5}, "eagle": {"chat": 0.5, "code": 0.5}}
BLOCK, COPY = ({name: {"chat": 0.4} for name in ("block", "lm")}, {"quantised": {"chat": 0.97}, "eagle": {"chat": 0.5}})


@pytest.mark.parametrize(
    ("acceptance", "c", "v", "paces", "dropped"),
    [
        (ALIKE, {"lm": 0.05, "eagle": 0.05}, CHEAP, {}, set()),
        (ALIKE, {"lm": 0.30, "eagle": 0.05}, CHEAP, {}, {"lm"}),
        (ALIKE, {"lm": 0.05, "eagle": 0.05}, CHEAP, {"eagle": 1.4}, {"eagle"}),  # it loses time on the clock
        (ALIKE, {"lm": 0.05, "eagle": 0.05}, DEAR, {}, {"lm", "eagle"}),  # nothing pays
        (ALIKE, {"lm": 0.05}, CHEAP, {}, set()),  # the other's cost is not known
        (ALIKE | {"lm": {"chat": 0.8, "code": 0.1}}, {"lm": 0.05, "eagle": 0.05}, CHEAP, {}, set()),  # one kind each
        ({}, {"lm": 9.0}, DEAR, {}, set()),  # how often it is right is not known
        (COPY, {"quantised": 0.46, "eagle": 0.04}, CHEAP, {}, set()),
        (COPY | {"eagle": {"chat": 0.3}}, {"quantised": 0.46, "eagle": 0.04}, CHEAP, {}, {"eagle"}),
        (COPY, {"quantised": 0.9, "eagle": 0.04}, CHEAP, {}, {"quantised"}),
        (BLOCK, {"block": 0.07, "lm": 0.07}, CHEAP, {}, set()),
    ],
)
def test_methods_without_a_chance_are_dropped_before_they_are_loaded(acceptance, c, v, paces, dropped):
    assert without_a_chance(acceptance, CostModel(0.0, v, 100, 0.01, draft_costs=c, paces=paces)) == dropped


def test_block_pays_for_one_pass_whatever_it_drafts():
    costs = CostModel(0.0, CHEAP, 100, 0.01, draft_costs={"block": 0.2, "lm": 0.2})
    assert promise("block", 0.7, costs) > promise("lm", 0.7, costs) > 1.0 == promise("lm", 0.1, costs)


def test_recorded_acceptance_is_of_the_nearest_temperature():
    for temperature, nearest in ((0.0, 0.0), (0.1, 0.0), (0.7, 0.8), (2.0, 1.0)):
        known = known_acceptance("smollm2-135m", temperature)
        assert {*known} <= {*METHODS} and known == known_acceptance("smollm2-135m", nearest)
        assert all(0 < alpha < 1 for kinds in known.values() for alpha in kinds.values())
    assert known_acceptance("a folder of one's own", 0.0) == {}
