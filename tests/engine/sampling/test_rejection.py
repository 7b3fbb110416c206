"""The acceptance rules by themselves: exact laws by enumeration, and what must hold for any p, q and u."""

import random

import exact_laws
import pytest
import torch
from closeness import assert_close, assert_each_close
from exact_laws import ONE, as_rule, chain_q_law, difference, output_law, rows, table_model, tree_q_law
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import ACCEPTANCE
from engine.sampling.rejection import (
    leftover_words,
    residual,
    verify_chain,
    verify_chain_at_once,
    verify_tree_at_once,
    walk_tree,
)
from engine.sampling.warping import draw, one_hot
from engine.tools.exactness.mutants import MUTANTS, rules

quick = settings(max_examples=80, derandomize=True)
VERDICT = ("path", "tested", "last", "closing")
TREE_RULES = pytest.mark.parametrize("verify_tree", [walk_tree, verify_tree_at_once])


@pytest.mark.parametrize(("vocabulary", "tokens"), [(6, (5,)), (3, (2, 2))], ids=["one draft", "two drafts"])
def test_a_chain_has_the_targets_law(vocabulary, tokens):
    """The drafts are drawn in one case and given in the other."""
    model, draft, N = table_model(vocabulary, 1), table_model(vocabulary, 2), len(tokens)
    for rule in (verify_chain, verify_chain_at_once):
        for ways in (chain_q_law(draft, N), [(tokens, 1.0, None)]):
            exact_laws.assert_target_law(as_rule(rule), model, ways, tuple(range(N)), N + 1)


INDEPENDENT, ALL_DIFFERENT, GIVEN = "independent", "without replacement", (4, 1, 0, 2)


@TREE_RULES
@pytest.mark.parametrize(("parents", "vocabulary", "siblings"), [
    ((0, 0), 4, INDEPENDENT),
    ((0, 0, 0), 4, ALL_DIFFERENT),
    ((0, 0, 2), 3, INDEPENDENT),  # a child of the second sibling
    ((0, 0, 0, 1), 5, GIVEN),
    pytest.param((0, 0, 0), 4, INDEPENDENT, marks=pytest.mark.slow),
    pytest.param((0, 0, 1, 2), 3, INDEPENDENT, marks=pytest.mark.slow),
], ids=str)  # fmt: skip
def test_a_tree_has_the_targets_law(parents, vocabulary, siblings, verify_tree):
    ways, depth = [(GIVEN, 1.0, None)], 2 + any(parents)
    if siblings != GIVEN:
        ways = tree_q_law(table_model(vocabulary, 6, holes=0.0), parents, siblings == INDEPENDENT)
    exact_laws.assert_target_law(as_rule(verify_tree, parents), table_model(vocabulary, 7), ways, parents, depth)


# Mistakes in the drafter, in the warping, or in which uniform is used are not visible to a law over (p, q, tokens).
EXACTLY_CAUGHT = ["no-residual", "residual-absolute", "p-row-late", "closing-row-early", "bonus-from-q", "tail-kept",
                  "ratio-inverted", "q-ignored", "good-enough"]  # fmt: skip


@pytest.mark.parametrize("name", EXACTLY_CAUGHT)
def test_the_law_tells_wrong_rules_apart(name):
    (mutant,) = [m for m in MUTANTS if m.name == name]
    model, draft = table_model(3, 1), table_model(3, 2)
    found = output_law(
        as_rule(mutant.rules.function(ACCEPTANCE["token"].chain)), model, chain_q_law(draft, 2), (0, 1), 3
    )
    assert difference(found, exact_laws.expected_law(model, 3)) > 1e-3


@TREE_RULES
@quick
@given(seed=st.integers(0, 10_000), N=st.integers(1, 9), drawn=st.booleans())
def test_a_tree_gives_the_verdict_of_a_walk_from_node_to_node(seed, N, drawn, verify_tree):
    """The walk is written out once more in `mutants.rules`. It tests a draft only when it comes by."""
    chance = random.Random(seed)
    parents = tuple(chance.randrange(max(0, i - 3), i + 1) for i in range(N))
    p, q = rows(N + 1, 6, seed), rows(N, 6, seed + 1)
    u = torch.rand(2 * N + 1, generator=torch.Generator().manual_seed(seed))
    q = torch.stack([q[parent] for parent in parents])  # siblings of one q
    tokens = draw(q, u[:N].flip(0))
    both, q = (verify_tree, rules().function(ACCEPTANCE["token"].tree)), q if drawn else None
    tree, walk = (rule(p, q, tokens, parents, u[:N], u[N:]) for rule in both)
    assert all(torch.equal(getattr(tree, name), getattr(walk, name)) for name in VERDICT)
    assert_each_close(tree.accept[walk.tested], walk.accept[walk.tested])
    assert_close(tree.row, walk.row)


def test_the_verdict_of_a_round_worked_out_by_hand():
    """p(x) = 0.3 and q(x) = 0.6: kept below u = 0.5; the residual is what p has more of."""
    p = torch.tensor([[0.3, 0.5, 0.2], [0.0, 0.0, 1.0]])
    q, x = torch.tensor([[0.6, 0.3, 0.1]]), torch.tensor([0])
    kept = verify_chain(p, q, x, torch.tensor([0.49]), torch.tensor([0.0, 0.0]))
    assert kept.path.tolist() == [True] and int(kept.last) == 1 and int(kept.closing) == 2
    refused = verify_chain(p, q, x, torch.tensor([0.51]), torch.tensor([0.0, 0.9]))
    assert refused.path.tolist() == [False] and refused.tested.tolist() == [True] and int(refused.closing) == 1
    assert refused.row.tolist() == pytest.approx([0, 2 / 3, 1 / 3]) and float(refused.accept) == pytest.approx(0.5)


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
@given(cases())
def test_a_residual_is_the_same_for_one_row_and_several_and_without_q(case):
    """Rows in which nothing is left are chosen apart, and a one-hot q only takes its word away."""
    p, q, tokens, *_ = case
    for of_draft in (q, one_hot(tokens, p.shape[-1])):
        alone = [residual(p[i : i + 1], of_draft[i : i + 1]) for i in range(len(q))]
        assert torch.equal(residual(p[:-1], of_draft), torch.cat(alone))
    left, total = leftover_words(p[:-1], tokens)
    assert torch.equal(left / total, torch.cat(alone))


@quick
@given(cases(), st.booleans())
def test_nothing_impossible_comes_out(case, drawn):
    """The drafts are a chain, or siblings that are drawn from one q."""
    p, q, tokens, u, u_closing = case
    chain, star = tuple(range(len(tokens))), (0,) * len(tokens)
    one = q[:1].expand(len(q), -1)
    shapes = [(rule, chain, q, tokens) for rule in (walk_tree, verify_tree_at_once)]
    shapes += [(rule, star, one, draw(one, u.flip(0))) for rule in (walk_tree, verify_tree_at_once)]
    chains = [rule(p, q if drawn else None, tokens, u, u_closing) for rule in (verify_chain, verify_chain_at_once)]
    assert all(torch.equal(*(getattr(each, name) for each in chains)) for name in VERDICT)
    found = [(verdict, chain, tokens) for verdict in chains]
    found += [(rule(p, q if drawn else None, x, parents, u, u_closing), parents, x) for rule, parents, q, x in shapes]
    for verdict, parents, x in found:
        assert torch.isfinite(verdict.row).all() and (verdict.row >= 0).all()
        assert torch.isfinite(verdict.accept[verdict.tested]).all()
        assert verdict.row[verdict.closing] > 0, "a token outside its row was drawn"
        assert p[verdict.last, verdict.closing] > 0, "a token that the target rules out was drawn"
        assert all(p[parents[i], x[i]] > 0 for i in verdict.path.nonzero()[:, 0].tolist())


@quick
@given(cases())
def test_drafts_from_the_target_itself_are_kept(case):
    p, q, tokens, u, u_closing = case
    verdict = verify_chain(torch.cat([q, q[-1:]]), q, tokens, u, u_closing)
    assert verdict.path.all() and int(verdict.last) == len(tokens) and (verdict.accept == 1).all()
    p = p[: len(q)]
    left, more = residual(p, q), (p > q).any(-1)
    assert torch.isfinite(left).all() and (left >= 0).all()
    assert_close(left.sum(-1), torch.ones(len(p)))
    assert (left[more][(p <= q)[more]] == 0).all()
