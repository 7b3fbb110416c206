"""Which guesses a tree keeps: the likeliest, those that are worth their rows, or those of a recording."""

from itertools import product
from math import prod

import pytest

from engine.decoding.draft_length import AdaptiveGamma, ReplayedGamma
from engine.drafters.base import PER_TOKEN
from engine.drafters.token_tree import MostProbable, Node, TokenTree, Worthwhile, confidence_class

FLAT, STEEP = {1: 1.0, 2: 1.01}, {1: 1.0, 2: 1.29}


def guesses(node: Node) -> tuple[list[int], list[float]]:
    """Returns the same three after every node, the likelier ones first."""
    return [10 * node.depth + rank for rank in (1, 2, 3)], [0.6, 0.3, 0.05]


def grown(shape, limit: int = 8) -> tuple[list[Node], tuple[int, ...], int]:
    """The nodes kept, their parents and the passes it took."""
    tree, level, steps = TokenTree(shape), None, 0
    while level or level is None:
        children = [child for node in level or [tree.root] for child in tree.add(node, *guesses(node))]
        steps += 1
        level = tree.to_expand(children) if steps < limit else []
    return *tree.select(), steps


def products(nodes: list[Node]) -> list[float]:
    return [prod((0.6, 0.3, 0.05)[one.token % 10 - 1] for one in node.path()) for node in nodes]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 20])
def test_the_most_probable_paths_are_kept_and_no_pass_is_taken_in_vain(count):
    nodes, parents, steps = grown(MostProbable(count))
    best = sorted((prod(path) for n in range(1, 9) for path in product((0.6, 0.3, 0.05), repeat=n)), reverse=True)
    assert sorted(products(nodes), reverse=True) == pytest.approx(best[:count])
    assert max(node.depth for node in nodes) <= steps <= max(node.depth for node in nodes) + 1
    assert all(parent <= at for at, parent in enumerate(parents))
    assert parents[0] == 0 and nodes[0].token == 1, "the likeliest path comes first"


def test_a_kept_nodes_elders_and_ancestors_are_kept():
    """This is so for any learned chances, even where a later guess was right more often than the first."""
    strange = {0: 0.1, ("later", 0): 0.9, ("later", 1): 0.2, PER_TOKEN: 0.9}
    nodes, _, _ = grown(Worthwhile(lambda key: strange.get(key, 0.3), lambda n: 0.03 * n, 0.0))
    kept = set(nodes)
    for node in nodes:
        assert node.depth == 1 or node.parent in kept
        assert set(node.parent.children[: node.parent.children.index(node)]) <= kept
    assert len(nodes) > 3


def shape_of(v, c=0.03) -> Worthwhile:
    policy = AdaptiveGamma(c, v, {PER_TOKEN: 0.5, 6: 0.6, ("later", 0): 0.7, ("later", 1): 0.4, ("later", 3): 0.1})
    return policy.tree_shape()


def test_tree_grows_where_rows_are_cheap_and_is_a_chain_elsewhere():
    chain, tree = grown(shape_of(STEEP, c=0.0)), grown(shape_of(FLAT))
    assert chain[1] == tuple(range(len(chain[1]))) and 0 < len(chain[1]) < 4
    assert len(tree[1]) > 10 and len(set(tree[1])) < len(tree[1])
    assert len(grown(shape_of({1: 1.0, 2: 1.0}, c=0.0), limit=30)[0]) == 64, "at most"
    assert grown(shape_of({1: 1.0, 2: 3.0}))[:2] == ([], ())


def test_every_node_that_is_kept_is_worth_its_row_and_no_other_is():
    tree = TokenTree(shape_of({1: 1.0, 2: 1.05}))
    tree.add(tree.root, [1, 2, 3, 4], [0.62, 0.22, 0.1, 0.01])
    kept = tree.select()[0]
    assert kept == [node for node in tree.nodes if node.reach >= 0.05] and [node.token for node in kept] == [1, 2, 3]
    busy = shape_of({1: 1.0, 2: 0.9, 3: 1.2})  # measured on a busy machine, v may fall from one width to the next
    assert busy.row_cost(0) == 0 and busy.row_cost(1) > 0


def test_a_later_guess_counts_when_those_before_it_are_wrong():
    """Its chance is what its key promises when its turn comes, times the chance that its turn comes."""
    tree = TokenTree(Worthwhile({6: 0.6, ("later", 0): 0.5}.get, lambda n: 0.0, 0.0))
    first, second = tree.add(tree.root, [1, 2], [0.6, 0.3])
    assert (first.key, second.key) == (6, ("later", 0)), "0.3 of the 0.4 that are left"
    assert first.reach == pytest.approx(0.6) and second.reach == pytest.approx(0.4 * 0.5)
    assert [confidence_class(0, share) for share in (0.0, 0.55, 1.0)] == [0, 5, 9]
    assert [confidence_class(2, share)[1] for share in (1.0, 0.3, 0.13, 0.0)] == [0, 1, 2, 5]


def test_a_recorded_shape_is_built_again():
    parents = (0, 1, 2, 1, 0, 5)
    policy = ReplayedGamma([(6, 3, "", parents), (2, 2)])
    nodes, again, steps = grown(policy.tree_shape())
    assert again == parents and steps == 3
    assert [node.token for node in nodes] == [1, 11, 21, 12, 2, 11]
    policy.observe(PER_TOKEN, [])
    assert policy.tree_shape() is None
