"""Which guesses a tree keeps: the likeliest, those that are worth their rows, or those of a recording."""

import pytest

from engine.decoding.draft_length import AdaptiveGamma, ReplayedGamma
from engine.drafters.base import PER_TOKEN
from engine.drafters.token_tree import (
    MAX_CHILDREN,
    MostProbable,
    Node,
    TokenTree,
    Worthwhile,
    confidence_class,
    is_first,
)

FLAT, STEEP = {1: 1.0, 2: 1.01}, {1: 1.0, 2: 1.29}


def guesses(node: Node) -> tuple[list[int], list[float]]:
    """The same three after every node, likelier the earlier."""
    return [10 * node.depth + rank for rank in (1, 2, 3)], [0.6, 0.3, 0.05]


def grown(shape, most: int = 8) -> tuple[list[Node], tuple[int, ...], int]:
    """The nodes kept, their parents and the passes it took."""
    tree, level, steps = TokenTree(shape), None, 0
    while level or level is None:
        children = [child for node in level or [tree.root] for child in tree.add(node, *guesses(node))]
        steps += 1
        level = tree.to_expand(children) if steps < most else []
    return *tree.select(), steps


def products(nodes: list[Node]) -> list[float]:
    shares = [0.6, 0.3, 0.05]
    found = []
    for node in nodes:
        product = 1.0
        for one in node.path():
            product *= shares[one.token % 10 - 1]
        found.append(product)
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 20])
def test_the_most_probable_paths_are_kept_and_no_pass_is_taken_in_vain(count):
    nodes, parents, steps = grown(MostProbable(count))
    everything = [1.0]
    best: list[float] = []
    for _ in range(8):
        everything = [mass * share for mass in everything for share in (0.6, 0.3, 0.05)]
        best += everything
    assert sorted(products(nodes), reverse=True) == pytest.approx(sorted(best, reverse=True)[:count])
    assert max(node.depth for node in nodes) <= steps <= max(node.depth for node in nodes) + 1
    assert all(parent <= at for at, parent in enumerate(parents))
    assert parents[0] == 0 and nodes[0].token == 1, "the likeliest path comes first"


def test_a_kept_nodes_elders_and_ancestors_are_kept():
    """For any chances that were learned, even where a later guess was right more often than the first."""
    strange = {0: 0.1, ("later", 0): 0.9, ("later", 1): 0.2, PER_TOKEN: 0.9}
    nodes, _, _ = grown(Worthwhile(lambda key: strange.get(key, 0.3), lambda n: 0.03 * n, 0.0))
    kept = set(nodes)
    for node in nodes:
        assert node.depth == 1 or node.parent in kept
        assert set(node.parent.children[: node.parent.children.index(node)]) <= kept
    assert len(nodes) > 3


def shape_of(v, c=0.03, most=64) -> Worthwhile:
    policy = AdaptiveGamma(c, v, {PER_TOKEN: 0.5, 6: 0.6, ("later", 0): 0.7, ("later", 1): 0.4, ("later", 3): 0.1})
    return policy.tree_shape()


def test_a_tree_grows_where_rows_are_cheap_and_is_a_chain_where_they_are_not():
    chain, tree = grown(shape_of(STEEP, c=0.0)), grown(shape_of(FLAT))
    assert chain[1] == tuple(range(len(chain[1]))) and 0 < len(chain[1]) < 4
    assert len(tree[1]) > 10 and len(set(tree[1])) < len(tree[1])
    assert len(grown(shape_of({1: 1.0, 2: 1.0}, c=0.0), most=30)[0]) == 64, "at most"
    assert grown(shape_of({1: 1.0, 2: 3.0}))[:2] == ([], ())


def test_every_node_that_is_kept_is_worth_its_row_and_no_other_is():
    shape = shape_of({1: 1.0, 2: 1.05})
    tree = TokenTree(shape)
    tree.add(tree.root, [1, 2, 3, 4], [0.62, 0.22, 0.1, 0.01])
    kept, row = tree.select()[0], 0.05
    assert all(node.reach >= row for node in kept)
    assert all(node.reach < row for node in tree.nodes if node not in kept)
    assert [node.token for node in kept] == [1, 2, 3]


def test_a_later_guess_counts_when_those_before_it_are_wrong():
    """Its chance is what its key promises when its turn comes, times the chance that its turn comes."""
    tree = TokenTree(Worthwhile({6: 0.6, ("later", 0): 0.5}.get, lambda n: 0.0, 0.0))
    first, second = tree.add(tree.root, [1, 2], [0.6, 0.3])
    assert (first.key, second.key) == (6, ("later", 0)), "0.3 of the 0.4 that are left"
    assert first.reach == pytest.approx(0.6) and second.reach == pytest.approx(0.4 * 0.5)


def test_a_recorded_shape_is_built_again():
    parents = (0, 1, 2, 1, 0, 5)
    policy = ReplayedGamma([(6, 3, "", parents), (2, 2)])
    nodes, again, steps = grown(policy.tree_shape())
    assert again == parents and steps == 3
    assert [node.token for node in nodes] == [1, 11, 21, 12, 2, 11]
    policy.observe(PER_TOKEN, [])
    assert policy.tree_shape() is None


def test_outcomes_of_a_tree_teach_each_key_its_own_chance():
    policy = AdaptiveGamma(0.0, FLAT, {PER_TOKEN: 0.5})
    keys = (7, ("later", 1), ("later", 2))
    for _ in range(40):
        policy.observe(PER_TOKEN, [False, True, None], path=keys, steps=1)
    assert policy.alpha(7) < 0.2 and policy.alpha(("later", 1)) > 0.8 and policy.alpha(("later", 2)) == 0.5
    assert policy.alpha(PER_TOKEN) < 0.2, "what a first guess is worth"


def test_keys_tell_first_guesses_from_later_ones():
    assert [confidence_class(0, share) for share in (0.0, 0.55, 1.0)] == [0, 5, 9]
    assert [confidence_class(2, share)[1] for share in (1.0, 0.3, 0.13, 0.0)] == [0, 1, 2, 5]
    assert is_first(3) and not is_first(("later", 0)) and MAX_CHILDREN == 10


def test_a_row_never_costs_less_than_nothing():
    """v measured on a busy machine may fall from one width to the next."""
    shape = shape_of({1: 1.0, 2: 0.9, 3: 1.2})
    assert shape.row_cost(0) == 0 and shape.row_cost(1) > 0
