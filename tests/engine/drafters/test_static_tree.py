"""The static tree of Sequoia's programme, against every tree there is."""

from functools import cache

import pytest
from exact_laws import paths_of
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafters.static_tree import StaticTrees, best_tree

quick = settings(max_examples=40, derandomize=True)
chances = st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3).map(tuple)


@cache
def forests(drafts: int) -> list[tuple]:
    """Returns all ordered forests of ``drafts`` drafts; a tree is the tuple of its children."""
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
    return max(map(len, paths_of(parents, parents)))


def expected_drafts(parents: tuple[int, ...], chances: tuple[float, ...]) -> float:
    """How many drafts of a tree are accepted on average."""
    reach, left, tried = [1.0], [1.0], [0]  # by node; left: the chance that no child so far is right
    for parent in parents:
        chance = chances[tried[parent]]
        reach.append(reach[parent] * left[parent] * chance)
        left[parent] *= 1 - chance
        tried[parent] += 1
        left.append(1.0)
        tried.append(0)
    return sum(reach[1:])


@pytest.mark.parametrize(
    ("parents", "expected"), [((0, 1, 2), 1.176), ((0, 0, 0), 0.792), ((0, 1, 1, 0, 4), 1.268)], ids=str
)
def test_the_expected_drafts_are_those_worked_out_by_hand(parents, expected):
    """A child counts when its parent is accepted and its elder siblings are not."""
    assert expected_drafts(parents, (0.6, 0.35, 0.2)) == pytest.approx(expected)


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
