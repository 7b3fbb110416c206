"""Drafts that are decided on together, of a chain (block verification) and of a tree (traversal verification)."""

import random
from functools import partial

import exact_laws
import pytest
import torch
from closeness import approx, assert_close
from exact_laws import (
    ONE,
    as_rule,
    assert_target_law,
    block_law,
    difference,
    law,
    output_law,
    rows,
    table_model,
    tree_q_law,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import ACCEPTANCE
from engine.sampling.block_verification import verify_block
from engine.sampling.rejection import residual, walk_tree
from engine.sampling.traversal import Order, verify_traversal
from engine.sampling.warping import draw, one_hot
from engine.tools.exactness.mutants import MUTANTS, traversal_rules

quick = settings(max_examples=60, derandomize=True)
FORK = (0, 0, 1)
VERDICT = ("path", "tested", "last", "closing")


def block(p, q, tokens, parents, u, u_closing):
    return verify_block(p, q, tokens, u, u_closing)


def rule_law(parents):
    """Integrates a rule for this tree over its uniforms: the drafts decide in the order they are tried."""
    return partial(block_law, order=[node - 1 for node in Order.from_parents(parents).nodes[:-1]])


def trees(replace: bool, *cases):
    return [pytest.param(verify_traversal, *case, replace, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(("rule", "parents", "vocabulary", "seed", "replace"), [
    (block, (0, 1), 3, 5, True),
    (block, (0, 1, 2), 2, 3, True),
    (verify_traversal, FORK, 3, 9, False),
    (verify_traversal, FORK, 2, 9, True),
    *trees(True, (FORK, 3, 9), ((0, 0, 1, 2), 3, 9)),
    *trees(False, ((0, 0, 1, 2), 3, 9), ((0, 0, 0), 4, 3), ((0, 1, 1, 0), 3, 9)),
])  # fmt: skip
def test_it_has_the_targets_law_and_accepts_at_least_as_many_drafts(rule, parents, vocabulary, seed, replace):
    model, draft = table_model(vocabulary, seed), table_model(vocabulary, seed + 1, holes=0.2 if rule is block else 0.0)
    q_law = list(tree_q_law(draft, parents, replace))
    depth = 1 + max(len(path) for path in exact_laws.paths_of(parents, parents))
    assert_target_law(as_rule(rule, parents), model, q_law, parents, depth, rule_law(parents))
    together = exact_laws.mean_accepted(as_rule(rule, parents), model, q_law, parents, rule_law(parents))
    alone = exact_laws.mean_accepted(as_rule(walk_tree, parents), model, q_law, parents, law)
    assert together >= alone - 1e-6
    assert together > alone + 1e-5 or len(set(parents)) == 1, "with one level nothing can be rescued"


@pytest.mark.parametrize(
    ("rule", "parents", "tokens"), [(block, (0, 1), (3, 3)), (verify_traversal, (0, 0, 0, 1), (4, 1, 0, 2))]
)
def test_drafts_that_were_no_draws_have_the_targets_law(rule, parents, tokens):
    assert_target_law(as_rule(rule, parents), table_model(5, 7), [(tokens, 1.0, None)], parents, 3, rule_law(parents))


def test_a_tree_whose_shape_depends_on_its_own_tokens_has_the_targets_law():
    """Its draft gets a child after token 0, and a sibling after any other."""
    model, draft, outputs = table_model(3, 1), table_model(3, 2, holes=0.0), {}
    for parents, kept in (((0, 1), lambda first: first == 0), ((0, 0), lambda first: first != 0)):
        ways = [way for way in tree_q_law(draft, parents, replace=False) if kept(way[0][0])]
        found = output_law(as_rule(verify_traversal, parents), model, ways, parents, 3, rule_law(parents))
        outputs = {tokens: outputs.get(tokens, 0.0) + found.get(tokens, 0.0) for tokens in {*outputs, *found}}
    assert difference(outputs, exact_laws.expected_law(model, 3)) < 2e-6


WRONG = {mutant.name: mutant.rules for mutant in MUTANTS} | {
    "the residual of p without its weight": traversal_rules(sibling_row=lambda row, q, w: residual(row, q)),
    "the residual of the child alone": traversal_rules(sibling_row=lambda row, q, w: row),
}


@pytest.mark.parametrize(
    "name", ["block-stops", "block-residual", "traversal-weight", "traversal-q-unscaled", *list(WRONG)[-2:]]
)
def test_the_law_tells_wrong_rules_of_blocks_apart(name):
    if name.startswith("block"):
        rule, parents = as_rule(WRONG[name].function(ACCEPTANCE["block"].chain)), (0, 1)
        integrate = law if name == "block-stops" else block_law
        model, draft = table_model(3, 1), table_model(3, 2)
    else:
        rule, parents, integrate = as_rule(WRONG[name].function(ACCEPTANCE["block"].tree), FORK), FORK, rule_law(FORK)
        model, draft = table_model(3, 22), table_model(3, 25, holes=0.0)
    ways = tree_q_law(draft, parents, replace=name.startswith("block"))
    assert difference(output_law(rule, model, ways, parents, 3, integrate), exact_laws.expected_law(model, 3)) > 1e-3


def random_tree(seed: int, N: int) -> tuple[int, ...]:
    chance = random.Random(seed)
    return tuple(chance.randrange(max(0, i - 3), i + 1) for i in range(N))


def drawn_tree(seed: int, parents, vocabulary: int = 6):
    """p, q, tokens, u and u_closing of a tree whose siblings were drawn without replacement."""
    N = len(parents)
    p, base = rows(N + 1, vocabulary, seed), rows(N + 1, vocabulary, seed + 1, holes=0.0)
    u, tokens, q = torch.rand(3 * N + 1, generator=torch.Generator().manual_seed(seed)), [], []
    for i, parent in enumerate(parents):
        elders = [tokens[j] for j in range(i) if parents[j] == parent]
        left = base[parent].index_fill(0, torch.tensor(elders, dtype=torch.long), 0.0)
        q.append(left / left.sum())
        tokens.append(int(draw(q[-1][None], u[2 * N + 1 + i : 2 * N + 2 + i])))
    return p, torch.stack(q), torch.tensor(tokens), u[:N], u[N : 2 * N + 1]


@quick
@given(seed=st.integers(0, 10_000), N=st.integers(1, 9), drawn=st.booleans())
def test_traversal_gives_the_verdict_of_a_walk_from_node_to_node(seed, N, drawn):
    """The walk is written out once more in `mutants.traversal_rules`."""
    parents = random_tree(seed, N)
    p, q, tokens, u, u_closing = drawn_tree(seed, parents, vocabulary=12)
    both = verify_traversal, traversal_rules().function(ACCEPTANCE["block"].tree)
    ours, walk = (rule(p, q if drawn else None, tokens, parents, u, u_closing) for rule in both)
    for name in VERDICT:
        assert torch.equal(getattr(ours, name), getattr(walk, name)), name
    assert_close(ours.accept[walk.tested], walk.accept[walk.tested], p)
    assert_close(ours.row, walk.row)


@quick
@given(seed=st.integers(0, 10_000), N=st.integers(0, 6), kind=st.sampled_from(["drawn", "given", "equal", "greedy"]))
def test_on_a_chain_traversal_is_block_verification(seed, N, kind):
    p, q = rows(N + 1, 7, seed), rows(max(N, 1), 7, seed + 1)[:N]
    p = torch.cat([q, p[-1:]]) if kind == "equal" else one_hot(p.argmax(-1), 7) if kind == "greedy" else p
    u = torch.rand(3 * N + 1, generator=torch.Generator().manual_seed(seed))
    tokens = draw(q, u[2 * N + 1 :]) if N else torch.zeros(0, dtype=torch.long)
    q = None if kind == "given" else q
    chain = verify_block(p, q, tokens, u[:N], u[N : 2 * N + 1])
    tree = verify_traversal(p, q, tokens, tuple(range(N)), u[:N], u[N : 2 * N + 1])
    for name in VERDICT:
        assert torch.equal(getattr(chain, name), getattr(tree, name)), name
    assert_close(tree.row, chain.row)
    if N:
        assert torch.equal(tree.block.rescued, chain.block.rescued)
        assert_close(tree.block.running, chain.block.running, p)
        assert_close(tree.block.h, chain.block.h, p)


def test_a_tree_worked_out_by_hand():
    """The first sibling has p/q = 0.5, and its child p/q = 2: weights 0.5 and 1, so the child always passes. Where it
    is missing, the sibling passes below 0.5, and leaves the other (0, 0.8 − 0.4, 0) of the row: it always passes."""
    p = torch.tensor([[0.2, 0.8, 0.0], [0.8, 0.2, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    q = torch.tensor([[0.4, 0.4, 0.2], [0.0, 2 / 3, 1 / 3], [0.4, 0.4, 0.2]])
    tokens, half = torch.tensor([0, 1, 0]), torch.full((4,), 0.5)
    rescuing = verify_traversal(p, q, tokens, (0, 0, 1), torch.tensor([0.9, 0.0, 0.99]), half)
    assert rescuing.path.tolist() == [True, False, True] and int(rescuing.last) == 3 and int(rescuing.closing) == 1
    assert rescuing.block.rescued.tolist() == [True, False, False] and rescuing.tested.tolist() == [True, False, True]
    assert rescuing.block.running.tolist() == pytest.approx([0.5, 1.0, 1.0])
    second = verify_traversal(p[:3], q[:2], tokens[:2], (0, 0), torch.tensor([0.9, 0.99]), half)
    assert second.path.tolist() == [False, True] and second.tested.tolist() == [True, True] and int(second.closing) == 2


@quick
@given(seed=st.integers(0, 10_000), N=st.integers(1, 8), drawn=st.booleans())
def test_greedy_verdicts_are_those_of_the_token_rule(seed, N, drawn):
    """One-hot p: no u changes the verdict."""
    parents, generator = random_tree(seed, N), torch.Generator().manual_seed(seed)
    p = one_hot(torch.randint(3, (N + 1,), generator=generator), 3)
    tokens, u = torch.randint(3, (N,), generator=generator), torch.rand(N, generator=generator)
    q = one_hot(tokens, 3) if drawn else None
    closing = torch.full((N + 1,), 0.5)
    together, alone = (rule(p, q, tokens, parents, u, closing) for rule in (verify_traversal, walk_tree))
    assert all(torch.equal(getattr(together, name), getattr(alone, name)) for name in (*VERDICT, "row"))
    assert not together.block.rescued.any()


@pytest.mark.parametrize("u", [0.0, ONE])
def test_drafts_from_the_target_itself_are_always_accepted(u):
    """p = q: all weights are 1 and S is 0, where the next weight would be 0/0."""
    _, q, tokens, _, closing = drawn_tree(3, (0, 1, 2, 0))
    p = torch.cat([q[:3], rows(2, 6, 4)])
    verdict = verify_traversal(p, q, tokens, (0, 1, 2, 0), torch.full((4,), u), closing)
    assert verdict.path.tolist() == [True, True, True, False]


@pytest.mark.parametrize("rule", [block, verify_traversal])
def test_after_a_draft_that_the_target_rules_out_nothing_is_accepted(rule):
    """A weight of 0 stays 0, also where the next draft's p/q is too large for a float."""
    p = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    q = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1e-45, 1.0]])
    verdict = rule(p, q, torch.tensor([0, 1]), (0, 1), torch.zeros(2), torch.full((3,), 0.5))
    assert int(verdict.last) == 0 and verdict.block.running.tolist() == [0.0, 0.0] == verdict.block.h.tolist()
    assert verdict.row.tolist() == pytest.approx([0.0, 1.0, 0.0])


@quick
@given(st.integers(0, 10_000), st.sampled_from([0.0, 2.0**-24, 0.5, ONE]), st.integers(1, 6), st.booleans())
def test_nothing_impossible_comes_out_of_blocks(seed, value, N, is_tree):
    """p is within 1e-8 of q, disjoint from it, or a point mass."""
    parents, rule = (random_tree(seed, N), verify_traversal) if is_tree else (tuple(range(N)), block)
    _, q, tokens, _, closing = drawn_tree(seed, parents)
    near = (q + 1e-8 * torch.randn(q.shape, generator=torch.Generator().manual_seed(seed))).clamp_min(0) * (q > 0)
    for p in (near, torch.where(q > 0, 0.0, 1.0) + 1e-3 * q, one_hot(q.argmin(-1), 6)):
        p = torch.cat([p / p.sum(-1, keepdim=True), rows(1, 6, seed + 1)])
        verdict = rule(p, q, tokens, parents, torch.full((N,), value), closing)
        assert torch.isfinite(verdict.row).all() and torch.isfinite(verdict.block.h).all()
        assert p[verdict.last, verdict.closing] > 0, "a token that the target rules out was drawn"
        assert all(p[parents[i], tokens[i]] > 0 for i in verdict.path.nonzero()[:, 0].tolist())


@pytest.mark.parametrize("tokens", [(0, 1, 2), (1, 0, 0)])
def test_one_hot_drafts_are_accepted_with_the_same_chances_by_both_rules(tokens):
    ways = [(tokens, 1.0, None)]
    together = exact_laws.mean_accepted(as_rule(verify_traversal, FORK), table_model(4, 2), ways, FORK, rule_law(FORK))
    alone = exact_laws.mean_accepted(as_rule(walk_tree, FORK), table_model(4, 2), ways, FORK)
    assert together == approx(alone)
