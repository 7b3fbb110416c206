"""Trees whose guesses are draws: siblings without replacement, a shape that no drawn token decides, draws used once."""

from collections import Counter

import pytest
import torch
from chi_squared import FALSE_ALARM, joint_p_value

from engine.config import MAX_NODES
from engine.decoding.draft_length import AdaptiveGamma
from engine.drafters.base import PER_TOKEN
from engine.drafters.drawn_tree import DrawnTree, draw_siblings
from engine.drafters.token_tree import MAX_CHILDREN, Node, Plan, Worthwhile, sibling_key
from engine.sampling.random_streams import Uniforms

Q = torch.tensor([0.5, 0.3, 0.15, 0.05])
WORDS = torch.tensor([7, 5, 3, 9])


def test_siblings_are_drawn_without_replacement():
    """The joint law of three of four words is compared with the products of the laws that each was drawn from."""
    u = torch.rand(2000, 3, generator=torch.Generator().manual_seed(1))
    tokens, rows = draw_siblings(Q.expand(2000, -1), u)
    law = {}
    for a in range(4):
        for b in {*range(4)} - {a}:
            for c in {*range(4)} - {a, b}:
                law[a, b, c] = float(Q[a] * Q[b] / (1 - Q[a]) * Q[c] / (1 - Q[a] - Q[b]))
    assert joint_p_value(Counter(map(tuple, tokens.tolist())), law) > FALSE_ALARM
    for i, (a, b, _) in enumerate(tokens[:50].tolist()):
        assert rows[i, 0].tolist() == pytest.approx(Q.tolist())
        for elders, row in (((a,), rows[i, 1]), ((a, b), rows[i, 2])):
            left = Q.index_fill(0, torch.tensor(elders), 0.0)
            assert row.tolist() == pytest.approx((left / left.sum()).tolist()), "earlier siblings gone, scaled to 1"


def test_where_nothing_is_left_the_last_token_comes_again_as_certain():
    tokens, rows = draw_siblings(torch.tensor([[0.0, 1.0, 0.0], [0.4, 0.6, 0.0]]), torch.full((2, 3), 0.9))
    assert tokens.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert rows[0].tolist() == [[0, 1, 0]] * 3 and rows[1, 1:].tolist() == [[1, 0, 0]] * 2


def grown(shape, seed: int, limit: int = 6, certainty: float = 0.5) -> tuple[list[Node], tuple[int, ...], DrawnTree]:
    """Grows a tree with the same four words after every node."""
    tree, steps = DrawnTree(shape, Uniforms(seed, 40 + MAX_NODES), 3, WORDS), 0
    level, logits = [tree.root], torch.tensor([[certainty, *[(1 - certainty) / 3] * 3]]).log()
    while level and steps < limit:
        rows = logits.expand(len(level), -1)
        level, steps = tree.to_expand(tree.draw(level, rows, rows.softmax(-1))), steps + 1
    return *tree.select(), tree


def shape_of(slope: float, c: float = 0.02) -> Worthwhile:
    priors = {PER_TOKEN: 0.5, **{tenth: tenth / 10 for tenth in range(10)}}
    priors |= {sibling_key(rank): 0.3 / rank for rank in range(1, MAX_CHILDREN)}
    return AdaptiveGamma(c, {1: 1.0, 2: 1.0 + slope}, priors).tree_shape()


def test_siblings_are_drawn_where_rows_are_cheap_and_a_chain_elsewhere():
    chain, tree = grown(shape_of(0.2, c=0.0), seed=0)[1], grown(shape_of(0.01), seed=0)[1]
    assert chain == tuple(range(len(chain))) and 0 < len(chain) < 4
    assert len(tree) > 8 and len({*tree}) < len(tree) and grown(shape_of(3.0), seed=0)[1] == ()
    sure = grown(shape_of(0.03), seed=0, certainty=0.97)[1]
    assert sure.count(0) < grown(shape_of(0.03), seed=0, certainty=0.5)[1].count(0), "a sure guess needs no sibling"
    nodes, parents, _ = grown(shape_of(0.04), seed=0)
    assert all(node.reach > 0.04 for node in nodes) and len({*parents}) < len(parents)
    ranks = [(node, node.parent.children.index(node)) for node in nodes]
    assert all(node.key == sibling_key(rank) for node, rank in ranks if rank)


GIVEN = (0, 1, 1, 0, 4)


@pytest.mark.parametrize("shape", [lambda: Plan(GIVEN), lambda: shape_of(0.02)], ids=["given", "worthwhile"])
def test_no_drawn_token_decides_about_its_own_place(shape):
    """Every node has the same distribution, so the shape is the same for all seeds; all draws are scored."""
    shapes, tokens = set(), set()
    for seed in range(12):
        nodes, parents, tree = grown(shape(), seed)
        assert len(nodes) == len(tree.nodes) and tree.q_of(nodes).sum(-1).tolist() == pytest.approx([1.0] * len(nodes))
        shapes.add(parents)
        tokens.add(tuple(tree.tokens_of(nodes, "cpu").tolist()))
    assert len(shapes) == 1 and len(tokens) > 6 and {*sum(tokens, ())} == {*WORDS.tolist()}
    assert isinstance(shape(), Worthwhile) or shapes == {GIVEN}


def test_no_draw_is_used_twice_in_a_round_or_in_two():
    """A rule that decides on all drafts together would see it (mutant traversal-same-draws)."""

    class Noted(Uniforms):
        def table(self, stream, sibling=0):
            values = super().table(stream, sibling)
            note = type("Table", (), {"__getitem__": lambda _, at: used.append((stream, sibling, at)) or values[at]})
            return note()

    used: list[tuple] = []
    for position in (3, 4, 6):
        tree = DrawnTree(Plan((0, 1, 1, 0, 4, 4)), Noted(0, 100), position, WORDS)
        rows = Q.log()[None]
        level = tree.to_expand(tree.draw([tree.root], rows, rows.softmax(-1)))
        tree.draw(level, rows.expand(len(level), -1), rows.softmax(-1).expand(len(level), -1))
    assert len(used) == 18 == len({*used})
