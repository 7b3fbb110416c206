"""Formulas against hand-made numbers and brute force."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.draft_length import AdaptiveGamma, FixedGamma, ReplayedGamma
from engine.trace.speedup_model import (
    best_gamma,
    best_length,
    break_even,
    expected_speedup,
    expected_tokens,
    idealised_speedup,
    interpolate,
    predicted_speedup,
)

V = {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.7}
FREE = {1: 1.0, 2: 1.0, 32: 1.0}
FLAT = {1: 1.0, 2: 1.08, 32: 1.08 + 30 * 0.05}


def test_expected_tokens_is_the_geometric_sum():
    assert expected_tokens(0.5, 3) == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    assert expected_tokens(0.0, 5) == 1
    assert expected_tokens(1.0, 5) == 6


@pytest.mark.parametrize(("width", "cost"), [(1, 1.0), (3, 1.2), (6, 1.5), (8, 1.7), (16, 2.5)])
def test_interpolation_is_linear_and_goes_on_with_the_last_slope(width, cost):
    assert interpolate(V, width) == pytest.approx(cost)


def test_interpolation_from_a_single_width_is_flat():
    assert interpolate({1: 1.0}, 5) == 1.0


def test_predicted_speedup_counts_what_happened():
    # Two rounds: 3 tokens from 3 drafts (3 steps), 1 plain token. Cost: 3·0.1 + v(4) + v(1) = 0.3 + 1.3 + 1.
    assert predicted_speedup([(3, 3, 3), (1, 0, 0)], 0.1, V) == pytest.approx(4 / 2.6)


def test_idealised_speedup_has_draft_and_verify_in_its_cost():
    assert idealised_speedup(0.5, 3, 0.1, V) == pytest.approx(1.875 / (0.3 + 1.3))


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 12))
def test_best_gamma_beats_every_other(alpha, c, most):
    best = best_gamma(alpha, c, V, most)
    rates = [idealised_speedup(alpha, gamma, c, V) for gamma in range(most + 1)]
    assert rates[best] >= max(rates) - 1e-9


@given(st.integers(1, 12), st.floats(0, 1.2), st.sampled_from([V, FREE, FLAT]))
def test_break_even_parts_what_is_slower_from_what_is_not(gamma, c, v):
    at = break_even(gamma, c, v)
    if at is None:
        assert idealised_speedup(1.0, gamma, c, v) < 1
        return
    assert idealised_speedup(at, gamma, c, v) >= 1 - 1e-9
    if at > 1e-6:
        assert idealised_speedup(at, gamma, c, v) == pytest.approx(1.0)
        assert idealised_speedup(0.99 * at, gamma, c, v) < 1


def test_break_even_by_hand():
    # One draft that costs half a step, scored for nothing: it must be kept half the time.
    assert break_even(1, 0.5, FREE) == pytest.approx(0.5)
    assert break_even(1, 0.0, FREE) == 0.0
    assert break_even(1, 1.01, FREE) is None


def test_a_draft_as_slow_as_the_target_is_never_used():
    assert best_gamma(0.9, 1.0, V, 8) == 0


def test_depths_that_differ_are_weighed_one_by_one():
    assert best_length([0.9, 0.0, 1.0], 0.05, FREE) == 1  # nothing survives the second draft
    assert best_length([0.2, 1.0, 1.0, 1.0], 0.0, FREE) == 4


def test_auto_learns_to_draft_more_and_less():
    auto = AdaptiveGamma(0.05, FLAT, {0: 0.5}, most=8)
    before = auto.choose(0, 8)
    for _ in range(20):
        auto.observe(0, 4, 4)
    more = auto.choose(0, 8)
    for _ in range(200):
        auto.observe(0, 1, 0)
    assert before < more == 8
    assert auto.choose(0, 8) == 0


def test_auto_tries_again_after_a_while():
    auto = AdaptiveGamma(0.05, FLAT, {0: 0.5}, most=8)
    for _ in range(60):
        auto.observe(0, 1, 0)
    waits = [auto.choose(0, 8) for _ in range(400)]
    assert waits[0] == 0 and max(waits) > 0


def test_auto_keeps_situations_apart_and_follows_them_deeper():
    auto = AdaptiveGamma(0.0, FLAT, {1: 0.1, 2: 0.9, 3: 0.9}, next_key=lambda n: min(n + 1, 3))
    auto.observe(1, 3, 2)  # kept at 1 and 2, refused at 3
    assert auto.alpha(1) > 0.1 and auto.alpha(2) > 0.9 and auto.alpha(3) < 0.9


@pytest.mark.parametrize("gamma_policy", [FixedGamma(9), AdaptiveGamma(0.0, FREE, {0: 0.99}), ReplayedGamma([9])])
def test_no_chooser_goes_past_the_room_there_is(gamma_policy):
    assert gamma_policy.choose(0, 3) <= 3


def test_pinned_repeats_the_recorded_lengths_and_then_stops_drafting():
    pinned, chosen = ReplayedGamma([3, 0, 2]), []
    for _ in range(4):
        chosen.append(pinned.choose(0, 32))
        pinned.observe(0, 0, 0)
    assert chosen == [3, 0, 2, 0]


def test_expected_speedup_weighs_places_by_their_tokens():
    """Half the tokens come at one a pass, half where four drafts are always kept: 1 ÷ (0.5 + 0.5 · v(5) ÷ 5)."""
    v = {1: 1.0, 2: 1.25, 3: 1.5, 4: 1.75, 5: 2.0}
    places = [(0.5, []), (0.5, [1.0, 1.0, 1.0, 1.0])]
    assert expected_speedup(places, 0.0, v) == pytest.approx(1 / (0.5 + 0.5 * 2.0 / 5))
    assert expected_speedup([(1.0, [0.6] * 4)], 0.1, FLAT) == pytest.approx(
        max(idealised_speedup(0.6, gamma, 0.1, FLAT) for gamma in range(5))
    )
    assert expected_speedup([(1.0, [0.01])], 0.5, FLAT) == 1.0, "what does not pay is not drafted"
