"""The static tree of Sequoia's programme, against every tree there is."""

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafters.static_tree import StaticTrees, best_tree, expected_drafts, fastest_tree
from engine.trace.speedup_model import best_length, idealised_speedup

quick = settings(max_examples=40, deadline=None, derandomize=True)
chances = st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3).map(tuple)


def rows(slope: float):
    """v(W) where each further row costs ``slope``."""
    return lambda width: 1.0 + slope * (width - 1)


@cache
def forests(drafts: int) -> list[tuple]:
    """All ordered forests of so many drafts; a tree is the tuple of its children."""
    if not drafts:
        return [()]
    return [(head, *rest) for n in range(drafts) for head in forests(n) for rest in forests(drafts - 1 - n)]


def as_parents(forest: tuple) -> tuple[int, ...]:
    found: list[int] = []

    def grow(children, parent):
        for child in children:
            found.append(parent)
            grow(child, len(found))

    grow(forest, 0)
    return tuple(found)


def levels(parents) -> int:
    depth = [0]
    for parent in parents:
        depth.append(depth[parent] + 1)
    return max(depth)


def simulated(parents, chances, rounds: int = 4000) -> float:
    """Accepted drafts a round, by tossing a coin for each draft whose turn comes."""
    coin, accepted = random.Random(0), 0
    for _ in range(rounds):
        node, tried = 0, 0
        for i, parent in enumerate(parents, start=1):
            if parent == node:
                if coin.random() < chances[tried]:
                    node, tried, accepted = i, 0, accepted + 1
                else:
                    tried += 1
    return accepted / rounds


@pytest.mark.parametrize("parents", [(0, 1, 2), (0, 0, 0), (0, 1, 1, 0, 4)], ids=str)
def test_the_expected_drafts_are_those_of_a_simulation(parents):
    chances = (0.6, 0.35, 0.2)
    assert expected_drafts(parents, chances) == pytest.approx(simulated(parents, chances), abs=0.06)


@quick
@given(chances, st.integers(0, 5), st.integers(1, 4))
def test_no_tree_of_its_size_and_depth_is_better(chances, drafts, deepest):
    best = best_tree(chances, drafts, deepest)
    trees = [as_parents(forest) for n in range(drafts + 1) for forest in forests(n)]
    allowed = [tree for tree in trees if levels(tree) <= deepest and widest(tree) <= len(chances)]
    assert best in allowed
    found = StaticTrees(chances, drafts, deepest).gains[deepest, drafts]
    assert expected_drafts(best, chances) == pytest.approx(found)
    assert found == pytest.approx(max(expected_drafts(tree, chances) for tree in allowed))


def widest(parents) -> int:
    return max((parents.count(node) for node in parents), default=0)


@quick
@given(chances, st.floats(0.0, 0.3), st.floats(0.0, 0.4))
def test_no_tree_brings_more_tokens_for_its_cost(chances, c, slope):
    v = rows(slope)
    parents, rate = fastest_tree(chances, c, v, most=5, deepest=5)
    trees = [as_parents(forest) for n in range(6) for forest in forests(n)]

    def promised(tree):
        return (1 + expected_drafts(tree, chances)) / (levels(tree) * c + v(len(tree) + 1))

    best = max(promised(tree) for tree in trees if widest(tree) <= len(chances))
    assert rate == pytest.approx(best) == promised(parents)


@quick
@given(st.floats(0.05, 0.95), st.floats(0.0, 0.2), st.floats(0.01, 0.3))
def test_without_second_chances_it_is_the_best_chain(alpha, c, slope):
    v = {1: 1.0, 2: 1.0 + slope}
    parents, rate = fastest_tree((alpha, 0.0), c, rows(slope), most=12, deepest=12)
    gamma = best_length([alpha] * 12, c, v)
    assert parents == tuple(range(gamma))
    assert rate == pytest.approx(idealised_speedup(alpha, gamma, c, v))


def test_cheap_rows_make_it_wide_and_dear_draft_steps_shallow():
    chances = (0.5, 0.3, 0.2)
    free, dear = (fastest_tree(chances, 0.05, rows(slope), 32, 8)[0] for slope in (0.005, 0.2))
    assert len(free) > 16 and widest(free) == 3 and len(dear) <= 2
    slow = fastest_tree(chances, 0.5, rows(0.005), 32, 8)[0]
    assert levels(slow) < levels(free) and fastest_tree(chances, 2.0, rows(0.1), 8, 4) == ((), 1.0)
