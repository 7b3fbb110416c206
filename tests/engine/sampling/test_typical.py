"""Typical acceptance: its formula, its paths, and that it is lossy, by how much."""

import math
from collections import Counter

import pytest
import torch
from chi_squared import CAUGHT

from engine.config import ACCEPTANCE, SamplingParams
from engine.sampling.typical import thresholds, typical_tree
from engine.tools.exactness.distribution_test import count_outcomes, judge, toy_runs
from engine.tools.exactness.toy_models import PLAIN, exact_distribution, make_drafter, record_trace, weather_pair

SURE, UNSURE = [0.9, 0.05, 0.05], [0.25, 0.25, 0.5]


def test_threshold_equals_the_smaller_of_epsilon_and_its_entropy_bound():
    entropy = -(2 * 0.25 * math.log(0.25) + 0.5 * math.log(0.5))
    p = torch.tensor([UNSURE, [1.0, 0.0, 0.0]])
    assert thresholds(p, 1.0, 0.3).tolist() == pytest.approx([0.3 * math.exp(-entropy), 0.3])
    assert thresholds(p, 0.09, 0.3).tolist() == pytest.approx([0.09, 0.09])


def verdict(rows, tokens, parents=None, u=0.5):
    p = torch.tensor(rows)
    return typical_tree(p, None, torch.tensor(tokens), parents, None, torch.full((len(tokens) + 1,), u), 0.09, 0.3)


def test_chain_ends_at_the_first_draft_below_its_threshold():
    result = verdict([SURE, UNSURE, SURE, SURE], [0, 2, 1])
    assert result.path.tolist() == [True, True, False] and result.tested.tolist() == [True] * 3
    assert result.last == 2 and result.row.tolist() == pytest.approx(SURE), "p itself, no residual"
    first = verdict([SURE, UNSURE, SURE], [1, 2])
    assert first.last == 0 and first.tested.tolist() == [True, False] and first.closing == 0


def test_of_a_tree_the_longest_path_counts_then_the_likelier():
    """Two children of the root pass; the second has a child that passes. A sibling off the path is not rejected."""
    result = verdict([UNSURE, SURE, UNSURE, SURE], [2, 0, 1], (0, 0, 2))
    assert result.path.tolist() == [False, True, True] and result.tested.tolist() == [False, True, True]
    assert result.last == 3
    likelier = verdict([UNSURE, SURE, SURE], [0, 2], (0, 0))
    assert likelier.path.tolist() == [False, True] and likelier.tested.tolist() == [False, True]
    none = verdict([SURE, SURE, SURE], [1, 2], (0, 0))
    assert none.last == 0 and none.tested.tolist() == [True, True] and not none.path.any()


def test_the_distribution_test_finds_it_lossy_and_says_by_how_much():
    """Every word is likely enough on the weather pair: the output has the draft's law, 0.24 away from the target's."""
    target, draft = weather_pair()
    draws = count_outcomes(toy_runs(target, draft, 2, PLAIN, 3, None, "lm", "typical"), range(400), 2)
    result = judge(exact_distribution(target, [0], 2), draws)
    assert result.p_value < CAUGHT and not result.lossless
    assert 0.18 < result.distance < 0.3 and result.distance > 2 * result.band[1]
    assert ACCEPTANCE["typical"].is_lossy and not ACCEPTANCE["block"].is_lossy


def test_a_trace_has_the_threshold_instead_of_a_draw():
    target, draft = weather_pair()
    settings = {
        "acceptance": "typical",
        "own_settings": {"epsilon": 0.35, "delta": 1.0},
        "max_new_tokens": 60,
        "seed": 1,
    }
    trace = record_trace(target, make_drafter("lm", draft), [0], gamma=3, sampling=SamplingParams(1.0), **settings)
    tokens, seen = [t for r in trace.rounds for t in r.tokens], Counter()
    for token in tokens:
        seen[token.status] += 1
        if token.status in ("accepted", "rejected"):
            assert (token.u, token.accept, token.residual) == (None, None, None)
            assert (token.p > token.threshold) == (token.status == "accepted")
        if token.status == "resampled":
            assert token.u is not None and token.residual is None and token.threshold is not None
    assert seen["accepted"] and seen["rejected"] and seen["resampled"] and trace.started.config["epsilon"] == 0.35
