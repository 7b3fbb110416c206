"""Formulas against hand-made numbers and brute force."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.bench.winners import break_even
from engine.trace import speedup_model
from engine.trace.speedup_model import best_gamma, expected_tokens, idealised_speedup, interpolate

V = {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.7}
FREE = {1: 1.0, 2: 1.0, 32: 1.0}
FLAT = {1: 1.0, 2: 1.08, 32: 1.08 + 30 * 0.05}


def test_expected_tokens_equals_the_geometric_sum():
    assert expected_tokens(0.5, 3) == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    assert (expected_tokens(0.0, 5), expected_tokens(1.0, 5)) == (1, 6)
    assert idealised_speedup(0.5, 3, 0.1, V) == pytest.approx(1.875 / (0.3 + 1.3))
    assert speedup_model.best_length([0.9, 0.0, 1.0], 0.05, FREE) == 1  # nothing survives the second draft
    assert speedup_model.best_length([0.2, 1.0, 1.0, 1.0], 0.0, FREE) == 4


@pytest.mark.parametrize(
    ("v", "width", "cost"), [(V, 1, 1.0), (V, 3, 1.2), (V, 6, 1.5), (V, 8, 1.7), (V, 16, 2.5), ({1: 1.0}, 5, 1.0)]
)
def test_interpolation_is_linear_and_goes_on_with_the_last_slope(v, width, cost):
    assert interpolate(v, width) == pytest.approx(cost)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 12))
def test_best_gamma_beats_every_other(alpha, c, limit):
    best = best_gamma(alpha, c, V, limit)
    rates = [idealised_speedup(alpha, gamma, c, V) for gamma in range(limit + 1)]
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


@pytest.mark.parametrize("rows", [1, 2, 5, 16, 40])
def test_row_of_a_batch_costs_as_much_as_plain_tokens_are_worth(rows):
    """Drafting pays by a row's costs exactly if it raises the tokens per cost of all rows in the whole pass."""
    v, c = {1: 1.0, 4: 1.2, 16: 2.2}, 0.035
    own_c, own_v = speedup_model.shared_costs(c, v, rows)
    assert interpolate(own_v, 1) == pytest.approx(1)
    for alpha, gamma in ((0.1, 1), (0.45, 2), (0.6, 3), (0.92, 8), (0.99, 20)):
        tokens = expected_tokens(alpha, gamma)
        whole = (rows - 1 + tokens) / (gamma * c + interpolate(v, rows + gamma)) * interpolate(v, rows) / rows
        own = tokens / (gamma * own_c + interpolate(own_v, gamma + 1))
        assert (whole > 1) == (own > 1) and (rows > 1 or own == pytest.approx(whole))
