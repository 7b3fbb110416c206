"""How certain a measurement is: bounds, intervals, winners, crossings, and costs that can be true."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import round_, token

from engine.tools.bench.winners import break_even_bracket, fastest, winner
from engine.trace import noise
from engine.trace.costs import CHEAPEST, CostModel
from engine.trace.noise import (
    PLAIN,
    Speedup,
    about_machine,
    ceiling,
    largest_busy_share,
    monotone_costs,
)
from engine.trace.speedup_model import idealised_speedup

COSTS = CostModel(0.1, {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.7}, 256, 0.03, 0.03)


def costs(spread: float, **v: float) -> CostModel:
    """w1=1.0, w2=0.95 as v(1), v(2)."""
    return CostModel(0.2, {int(name[1:]): cost for name, cost in v.items()}, 256, 0.03, spread, {"lm": 0.2})


def test_speedup_exceeds_tokens_per_pass_by_no_more_than_the_spread():
    assert ceiling(1.4, COSTS) == pytest.approx(1.4 * 1.03)
    assert ceiling(1.4, replace(COSTS, spread=0.9)) == pytest.approx(1.4 / CHEAPEST), "a busy machine explains no gain"
    assert ceiling(1.4, costs(0.02, w1=1.0, w2=0.94, w4=1.2)) == pytest.approx(1.4 / 0.94), "really quicker"
    assert ceiling(1.4, costs(0.02, w1=1.0, w2=0.6)) == pytest.approx(1.4 / CHEAPEST), "40 per cent is no kernel"
    for value, tau in ((2.21, 1.4), (1.90, 1.63), (1.37, 1.14)):  # printed by a busy machine once
        assert Speedup(value, ceiling=ceiling(tau)).tone == "noise"


@given(st.lists(st.floats(0.3, 3.0), min_size=5, max_size=5), st.floats(0, 1), st.floats(0, 0.99))
def test_whatever_the_clock_says_settled_costs_promise_nothing_impossible(measured, spread, alpha):
    found = monotone_costs(
        CostModel(0.0, dict(zip((1, 2, 4, 8, 16), [1.0, *measured[1:]], strict=True)), 256, 0.03, spread)
    )
    assert found.v[1] == 1.0 and monotone_costs(found) == found, "what is settled stays"
    widths = sorted(found.v)
    falls = [found.v[a] / found.v[b] for a, b in pairwise(widths)]
    assert max(falls) <= 1 / CHEAPEST + 1e-9
    most = 1 / (1 - alpha) / min(found.v.values())  # at any γ (Leviathan 2023, eq. 1)
    for gamma in (1, 3, 7, 15):
        assert idealised_speedup(alpha, gamma, 0.0, found.v) <= most + 1e-9


def test_a_dip_within_the_spread_is_pooled_and_step_and_c_follow():
    found = monotone_costs(costs(0.08, w1=1.0, w2=0.95, w4=1.2))
    assert found.v == pytest.approx({1: 1.0, 2: 1.0, 4: 1.2 / 0.975}) and found.step == pytest.approx(0.03 * 0.975)
    assert found.c == found.draft_costs["lm"] == pytest.approx(0.2 / 0.975)
    assert "1 and 2 tokens cannot be told apart" in noise.about_costs(found)
    three = monotone_costs(costs(0.08, w1=1.0, w2=1.2, w3=1.17, w4=1.14, w8=1.5))
    assert [three.v[w] for w in (2, 3, 4)] == pytest.approx([1.17] * 3) and three.v[8] == 1.5


def test_a_dip_beyond_the_spread_is_kept_and_said():
    real = costs(0.02, w1=1.0, w2=1.2, w4=1.1, w8=1.6)
    assert monotone_costs(real) == real and "4 tokens at once really are quicker" in noise.about_costs(real)
    assert noise.about_costs(COSTS) == "" and monotone_costs(COSTS) is COSTS


def test_a_dip_that_no_kernel_has_is_a_plain_step_that_was_disturbed():
    found = monotone_costs(costs(0.11, w1=1.0, w2=0.79, w16=1.1))
    assert found.v[2] == 1.0 and not found.steady, "it is measured again at the next run, and not kept"
    assert noise.has_dips({1: 1.0, 2: 0.9}) and not noise.has_dips({1: 1.0, 2: 1.0, 4: 1.1})


def test_a_winner_is_one_that_no_interval_reaches():
    a, b, once = Speedup(1.5, 1.4, 1.6), Speedup(1.2, 1.1, 1.3), Speedup(1.48)
    assert winner({"a": a, "b": b, "plain": PLAIN}) == "a"
    assert fastest({"a": replace(a, low=1.2), "b": b, "plain": PLAIN}) == ["a", "b"]
    assert winner({"a": a, "once": once}) is None and fastest({"once": once, "plain": PLAIN}) == ["once", "plain"]
    assert fastest({"a": replace(a, ceiling=1.45), "b": b, "plain": PLAIN}) == ["b", "a"], "noise leads nothing"
    assert winner({"a": replace(a, ceiling=1.05), "b": b, "plain": PLAIN}) == "b", "noise has a ceiling, too"
    assert winner({"a": replace(once, ceiling=1.4), "plain": PLAIN}) is None
    assert not fastest({"a": replace(a, ceiling=1)}), "nothing is known where all is noise"
    noisy = Speedup(1.6, 0.9, 2.3)
    assert fastest({"noisy": noisy, "b": b, "plain": PLAIN}) == ["b", "noisy"], "plain is beaten by b, if not by noise"


def test_a_crossing_lies_between_what_is_certain():
    far, level, slow = Speedup(1.5, 1.4, 1.6), Speedup(1.0, 0.9, 1.1), Speedup(0.8, 0.7, 0.9)
    assert break_even_bracket([(1, far), (4, level), (8, slow)]) == (1, 8)
    assert break_even_bracket([(1, far), (4, far)]) == (4, None) and break_even_bracket([(1, slow), (2, level)]) == (
        None,
        1,
    )
    assert break_even_bracket([(1, slow), (4, far), (8, slow)]) == (4, 8) and break_even_bracket([]) == (None, None)
    assert far.words == "1.50× (1.40–1.60)" and Speedup(2.21, 2.1, 2.3, 1.6).words == "noise"
    assert Speedup(0.61, 0.24, 1.87, 1.2).words == "0.61× (0.24–1.20)", "no end that a speedup cannot have"


def rounds(seconds: list[float], drafted: int = 0) -> list:
    made, clock = [], 0.0
    for index, each in enumerate(seconds):
        made.append(replace(round_(index, [token()], range(drafted)), start=clock, end=clock + each))
        clock += each
    return made


def test_uneven_rounds_widen_the_interval_of_a_single_pair():
    steady, uneven = rounds([0.1] * 40), rounds([0.02, 0.3] * 20)
    assert noise.rounds_error(steady) == pytest.approx(0) and noise.rounds_error(uneven) > 0.1
    still, swung = (
        noise.single_speedup(1.1, 2.0, None, steady, steady),
        noise.single_speedup(1.1, 2.0, None, steady, uneven),
    )
    assert (still.tone, swung.tone) == ("faster", "level") and still.low == pytest.approx(1.1 / 1.05, rel=2e-3)
    mixed = [*rounds([0.1] * 20), *rounds([0.3] * 20, drafted=3)]
    assert noise.rounds_error(mixed) == pytest.approx(0), "rounds of another shape take another time"


def test_interval_of_a_single_pair_holds_the_true_ratio():
    chance, held = random.Random(3), 0
    for _ in range(300):
        ours, plain = (rounds([0.1 * chance.lognormvariate(0, 0.4) for _ in range(50)]) for _ in range(2))
        value = plain[-1].end / ours[-1].end  # the true ratio of the runs is 1
        found = noise.single_speedup(value, 2.0, None, ours, plain)
        held += found.low <= 1 <= found.high
    assert held > 0.92 * 300, "three standard errors below 95 %"


def test_single_run_beside_other_programs_decides_nothing():
    assert Speedup(1.1).tone == "faster" and Speedup(1.1, busy=0.02).tone == "faster"
    assert Speedup(1.1, busy=0.4).tone == "level" and Speedup(0.8, busy=0.4).tone == "level"
    assert Speedup(1.1, 1.06, 1.14, busy=0.4).tone == "faster", "several repeats show what others do to them"
    steady = rounds([0.1] * 40)
    assert noise.single_speedup(1.2, 2.0, None, steady, steady).tone == "faster"
    for value, busy in ((1.2, 0.3), (1.8, 0.5), (1.6, 0.4)):  # 1.8 of a run at 0.9 whose baseline lost half its cores
        assert noise.single_speedup(value, 2.2, None, steady, steady, busy=busy).tone == "level"
        assert Speedup(value, ceiling=2.2, busy=busy).tone == "level"


def test_other_programs_are_said_where_they_took_a_share():
    assert about_machine(0.5).startswith("Other programs took 50\u00a0% of the processor") and about_machine(None) == ""
    assert about_machine(0.05) == "" and largest_busy_share([{}, {"busy": 0.2}, {"busy": 0.5}, {"busy": "much"}]) == 0.5
    assert largest_busy_share([{}]) is None
