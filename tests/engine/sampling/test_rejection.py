"""The acceptance rules by themselves: exact laws by enumeration, and what must hold for any p, q and u."""

import random

import pytest
import torch
from exact_laws import (
    ONE,
    as_rule,
    assert_target_law,
    chain_q_law,
    difference,
    expected_law,
    output_law,
    rows,
    table_model,
    tree_q_law,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.exactness.mutants import MUTANTS, rules
from engine.sampling.rejection import residual, verify_chain, verify_tree_at_once, walk_tree
from engine.sampling.warping import draw, one_hot

quick = settings(max_examples=80, deadline=None, derandomize=True)


# ---- exact laws ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("vocabulary", "N"), [(3, 1), (6, 1), (3, 2)])
def test_a_chain_has_the_targets_law(vocabulary, N):
    model, draft = table_model(vocabulary, 1), table_model(vocabulary, 2)
    assert_target_law(as_rule(verify_chain), model, chain_q_law(draft, vocabulary, N), tuple(range(N)), N + 1)


def test_a_chain_that_was_no_draw_has_the_targets_law():
    model = table_model(6, 3)
    for tokens in ((0, 1), (3, 3), (5, 2)):
        assert_target_law(as_rule(verify_chain), model, [(tokens, 1.0, None)], (0, 1), 3)


TREE_RULES = pytest.mark.parametrize("verify_tree", [walk_tree, verify_tree_at_once])


@TREE_RULES
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("replace", [True, False], ids=["independent", "without replacement"])
def test_siblings_have_the_targets_law(replace, count, verify_tree):
    model, q = table_model(4, 5), rows(1, 4, 6, holes=0.0)[0]
    parents = (0,) * count
    ways = tree_q_law(lambda path: q, 4, parents, replace)
    assert_target_law(as_rule(verify_tree, parents), model, ways, parents, 2)


@TREE_RULES
def test_top_siblings_have_the_targets_law(verify_tree):
    model, parents = table_model(5, 7), (0, 0, 0, 1)
    assert_target_law(as_rule(verify_tree, parents), model, [((4, 1, 0, 2), 1.0, None)], parents, 3)


@TREE_RULES
def test_a_two_level_tree_has_the_targets_law(verify_tree):
    """Two siblings, each with a child: nodes 1 and 2 under the root, 3 under 1, 4 under 2."""
    parents = (0, 0, 1, 2)
    ways = tree_q_law(table_model(3, 9), 3, parents)
    assert_target_law(as_rule(verify_tree, parents), table_model(3, 8), ways, parents, 3)


# Mistakes in the drafter, in the warping, or in which uniform is used are not visible to a law over (p, q, tokens).
EXACTLY_CAUGHT = ["no-residual", "residual-absolute", "p-row-late", "closing-row-early", "bonus-from-q", "tail-kept",
                  "ratio-inverted", "q-ignored", "good-enough"]  # fmt: skip


@pytest.mark.parametrize("name", EXACTLY_CAUGHT)
def test_the_law_tells_wrong_rules_apart(name):
    (mutant,) = [m for m in MUTANTS if m.name == name]
    model, draft = table_model(3, 1), table_model(3, 2)
    found = output_law(as_rule(mutant.rules.verify_chain), model, chain_q_law(draft, 3, 2), (0, 1), 3)
    assert difference(found, expected_law(model, 3)) > 1e-3


@TREE_RULES
@pytest.mark.parametrize("N", [0, 1, 2, 5])
@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "one-hot"])
def test_a_chain_as_a_tree_gives_the_same_verdict(drawn, N, verify_tree):
    for seed in range(25):
        p, q = rows(N + 1, 7, seed), rows(N, 7, seed + 100) if N else torch.zeros(0, 7)
        u = torch.rand(2 * N + 1, generator=torch.Generator().manual_seed(seed))
        tokens = draw(q, u[:N]) if N else torch.zeros(0, dtype=torch.long)
        q = q if drawn else None
        chain = verify_chain(p, q, tokens, u[:N], u[N:])
        tree = verify_tree(p, q, tokens, tuple(range(N)), u[:N], u[N:])
        for name, ours, theirs in zip(chain._fields, chain, tree, strict=True):
            if name == "accept":  # only of tested drafts does it mean anything
                ours, theirs = ours[chain.tested], theirs[chain.tested]
            # a chain normalises the bonus row once more, which may cost its last bit
            torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-7 if name == "row" else 0)


@TREE_RULES
@quick
@given(seed=st.integers(0, 10_000), N=st.integers(1, 9), drawn=st.booleans())
def test_a_tree_gives_the_verdict_of_a_walk_from_node_to_node(seed, N, drawn, verify_tree):
    """The walk is written out once more in `mutants.rules`. It tests a draft only when it comes by."""
    chance = random.Random(seed)
    parents = tuple(chance.randrange(max(0, i - 3), i + 1) for i in range(N))
    p, q, u = rows(N + 1, 6, seed), rows(N, 6, seed + 1), torch.rand(2 * N + 1, generator=torch.manual_seed(seed))
    q = torch.stack([q[parent] for parent in parents])  # siblings of one q
    tokens = draw(q, u[:N].flip(0))
    tree, walk = (
        rule(p, q if drawn else None, tokens, parents, u[:N], u[N:]) for rule in (verify_tree, rules().verify_tree)
    )
    for name in ("path", "tested", "last", "closing"):
        assert torch.equal(getattr(tree, name), getattr(walk, name)), name
    torch.testing.assert_close(tree.accept[walk.tested], walk.accept[walk.tested], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(tree.row, walk.row, rtol=0, atol=1e-6)


def test_the_verdict_of_a_round_worked_out_by_hand():
    """p(x) = 0.3 and q(x) = 0.6: kept below u = 0.5; the residual is what p has more of."""
    p = torch.tensor([[0.3, 0.5, 0.2], [0.0, 0.0, 1.0]])
    q, x = torch.tensor([[0.6, 0.3, 0.1]]), torch.tensor([0])
    kept = verify_chain(p, q, x, torch.tensor([0.49]), torch.tensor([0.0, 0.0]))
    assert kept.path.tolist() == [True] and int(kept.last) == 1 and int(kept.closing) == 2
    refused = verify_chain(p, q, x, torch.tensor([0.51]), torch.tensor([0.0, 0.9]))
    assert refused.path.tolist() == [False] and refused.tested.tolist() == [True] and int(refused.closing) == 1
    assert refused.row.tolist() == pytest.approx([0, 2 / 3, 1 / 3]) and float(refused.accept) == pytest.approx(0.5)


# ---- for any p, q, u -----------------------------------------------------------------------------------------------

uniform = st.sampled_from([0.0, 2.0**-24, 0.5, ONE]) | st.integers(0, 2**24 - 1).map(lambda k: k / 2**24)


@st.composite
def cases(draw_from):
    """p, q, tokens, u, u_closing with p equal to q, within 1e-8 of it, a point mass, or unrelated."""
    N, V = draw_from(st.integers(1, 4)), draw_from(st.integers(2, 8))
    seed = draw_from(st.integers(0, 10_000))
    q = rows(N, V, seed)
    kind = draw_from(st.sampled_from(["equal", "close", "point p", "point q", "other", "disjoint"]))
    p = rows(N + 1, V, seed + 1)
    if kind in ("equal", "close"):
        p[:N] = q
    if kind == "close":
        noise = 1e-8 * torch.randn(N, V, generator=torch.Generator().manual_seed(seed))
        p[:N] = torch.where(q > 0, (q + noise).clamp_min(0), 0.0)
    if kind == "point p":
        p = one_hot(p.argmax(-1), V)
    if kind in ("point q", "disjoint"):
        q = one_hot(q.argmax(-1), V)
    if kind == "disjoint":
        p[:N] = torch.where(q > 0, 0.0, p[:N] + 0.01)
        p = p / p.sum(-1, keepdim=True)
    u = torch.tensor(draw_from(st.lists(uniform, min_size=3 * N + 1, max_size=3 * N + 1)))
    tokens = draw(q, u[2 * N + 1 :])
    return p, q, tokens, u[:N], u[N : 2 * N + 1]


@quick
@given(cases(), st.booleans())
def test_nothing_impossible_comes_out(case, drawn):
    p, q, tokens, u, u_closing = case
    q = q if drawn else None
    for verdict in (
        verify_chain(p, q, tokens, u, u_closing),
        *(rule(p, q, tokens, tuple(range(len(tokens))), u, u_closing) for rule in (walk_tree, verify_tree_at_once)),
    ):
        assert torch.isfinite(verdict.row).all() and (verdict.row >= 0).all()
        assert torch.isfinite(verdict.accept[verdict.tested]).all()
        assert verdict.row[verdict.closing] > 0, "a token outside its row was drawn"
        assert p[verdict.last, verdict.closing] > 0, "a token that the target rules out was drawn"
        for i in verdict.path.nonzero()[:, 0].tolist():
            assert p[i, tokens[i]] > 0, "a draft that the target rules out was kept"


@TREE_RULES
@quick
@given(seed=st.integers(0, 10_000), values=st.lists(uniform, min_size=9, max_size=9))
def test_nothing_impossible_comes_out_of_a_tree(seed, values, verify_tree):
    p, q, u = rows(5, 5, seed), rows(4, 5, seed + 1), torch.tensor(values)
    q[1] = q[0]  # two siblings of one q, each with a child
    verdict = verify_tree(p, q, draw(q, u[:4].flip(0)), (0, 0, 1, 2), u[:4], u[4:])
    assert verdict.row[verdict.closing] > 0 and p[verdict.last, verdict.closing] > 0
    assert torch.isfinite(verdict.row).all()


@quick
@given(cases())
def test_drafts_from_the_target_itself_are_always_kept(case):
    _, q, tokens, u, u_closing = case
    p = torch.cat([q, q[-1:]])
    verdict = verify_chain(p, q, tokens, u, u_closing)
    assert verdict.path.all() and int(verdict.last) == len(tokens) and (verdict.accept == 1).all()


@quick
@given(cases())
def test_the_residual_is_a_distribution_over_what_p_has_more_of(case):
    p, q = case[0][: len(case[1])], case[1]
    left = residual(p, q)
    assert torch.isfinite(left).all() and (left >= 0).all()
    more = (p > q).any(-1)
    assert torch.allclose(left.sum(-1), torch.ones(len(p)), atol=1e-4)
    assert (left[more][(p <= q)[more]] == 0).all()
