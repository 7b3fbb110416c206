"""Block verification by itself: its exact law by enumeration, that it accepts no less, and the edges of its formula."""

from itertools import product

import pytest
import torch
from exact_laws import (
    ONE,
    as_rule,
    assert_target_law,
    block_law,
    chain_q_law,
    difference,
    expected_law,
    law,
    mean_accepted,
    output_law,
    rows,
    table_model,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.exactness.mutants import MUTANTS
from engine.sampling.block_verification import verify_block
from engine.sampling.rejection import verify_chain
from engine.sampling.warping import draw, one_hot

quick = settings(max_examples=80, deadline=None, derandomize=True)
SETTINGS = [(3, 1, 1), (3, 2, 1), (3, 2, 5), (2, 3, 3), (2, 4, 2)]  # vocabulary, drafts, seed


def closing_draws(N: int) -> torch.Tensor:
    return torch.full((N + 1,), 0.5)


@pytest.mark.parametrize(("vocabulary", "N", "seed"), SETTINGS)
def test_a_block_has_the_targets_law_and_accepts_at_least_as_many_drafts(vocabulary, N, seed):
    model, draft = table_model(vocabulary, seed), table_model(vocabulary, seed + 1)
    q_law = list(chain_q_law(draft, vocabulary, N))
    assert_target_law(as_rule(verify_block), model, q_law, tuple(range(N)), N + 1, block_law)
    block = mean_accepted(as_rule(verify_block), model, q_law, tuple(range(N)), block_law)
    token = mean_accepted(as_rule(verify_chain), model, q_law, tuple(range(N)), law)
    assert block >= token - 1e-6
    assert block > token + 1e-5 or N == 1, "with one draft both rules are the same"


def test_a_chain_that_was_no_draw_has_the_targets_law():
    model = table_model(6, 3)
    for tokens in ((0, 1), (3, 3), (5, 2)):
        assert_target_law(as_rule(verify_block), model, [(tokens, 1.0, None)], (0, 1), 3, block_law)


def test_a_chain_whose_length_depends_on_its_own_tokens_has_the_targets_law():
    """After token 0 the drafter goes on, after any other it stops."""
    vocabulary, model, draft = 3, table_model(3, 1), table_model(3, 2)
    ways, first = [], draft(())
    for a in range(vocabulary):
        if a:
            ways.append(((a,), float(first[a]), first[None]))
            continue
        ways += [((0, b), float(first[0] * draft((0,))[b]), torch.stack([first, draft((0,))])) for b in range(3)]
    outputs: dict = {}
    for length in (1, 2):
        same = [way for way in ways if len(way[0]) == length and way[1] > 0]
        found = output_law(as_rule(verify_block), model, same, tuple(range(length)), 3, block_law)
        outputs = {tokens: outputs.get(tokens, 0.0) + found.get(tokens, 0.0) for tokens in {*outputs, *found}}
    assert difference(outputs, expected_law(model, 3)) < 2e-6


@pytest.mark.parametrize("name", ["block-stops", "block-residual"])
def test_the_law_tells_wrong_rules_apart(name):
    (mutant,) = [m for m in MUTANTS if m.name == name]
    model, draft = table_model(3, 1), table_model(3, 2)
    integrate = law if name == "block-stops" else block_law
    with pytest.raises(AssertionError):
        rule = as_rule(mutant.rules.verify_block)
        assert_target_law(rule, model, chain_q_law(draft, 3, 2), (0, 1), 3, integrate)


# ---- the verdict ---------------------------------------------------------------------------------------------------


def plain_scan(p, q, tokens, u):
    """The rule as the paper writes it, in double precision: the number accepted, p_i and h_i, and the closing row."""
    p, q, N = p.double(), q.double(), len(tokens)
    running, h = [1.0], []
    for i in range(N):
        running.append(min(1.0, running[-1] * float(p[i, tokens[i]] / q[i, tokens[i]])))
    for i in range(1, N):
        left = float((running[i] * p[i] - q[i]).clamp_min(0).sum())
        h.append(1.0 if running[i] == 1 else left / (left + 1 - running[i]))
    h.append(running[N])
    last = max([i + 1 for i in range(N) if u[i] < h[i]], default=0)
    row = p[N] if last == N else (running[last] * p[last] - q[last]).clamp_min(0)
    return last, running[1:], h, row / row.sum()


@quick
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 8), st.booleans())
def test_the_verdict_is_that_of_a_plain_scan(seed, N, vocabulary, drawn):
    p, q = rows(N + 1, vocabulary, seed), rows(N, vocabulary, seed + 1)
    u = torch.rand(3 * N + 1, generator=torch.manual_seed(seed))
    tokens = draw(q, u[2 * N + 1 :])
    q = q if drawn else one_hot(tokens, vocabulary)
    verdict = verify_block(p, q if drawn else None, tokens, u[:N], u[N : 2 * N + 1])
    last, running, h, row = plain_scan(p, q, tokens, u[:N].tolist())
    assert int(verdict.last) == last == int(verdict.path.sum()) and verdict.tested.tolist() == [
        i <= last for i in range(N)
    ]
    assert verdict.block.running.tolist() == pytest.approx(running, abs=1e-5)
    assert verdict.block.h.tolist() == pytest.approx(h, abs=1e-4)
    torch.testing.assert_close(verdict.row.double(), row, rtol=0, atol=1e-4)
    assert verdict.row[verdict.closing] > 0


@quick
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_rescued_draft_failed_alone_and_stands_before_one_that_passed(seed, N):
    p, q = rows(N + 1, 6, seed), rows(N, 6, seed + 1)
    u = torch.rand(3 * N + 1, generator=torch.manual_seed(seed))
    tokens = draw(q, u[2 * N + 1 :])
    verdict, last = verify_block(p, q, tokens, u[:N], closing_draws(N)), 0
    last, passes = int(verdict.last), u[:N] < verdict.block.h
    assert (verdict.block.h <= verdict.block.running + 1e-6).all() and not passes[last:].any()
    for i, rescued in enumerate(verdict.block.rescued.tolist()):
        assert rescued == (i < last and u[i] >= verdict.accept[i] and not passes[i])


def test_a_block_worked_out_by_hand():
    """p/q is 0.5 and then 2, so p_1 = 0.5 and p_2 = 1: the second draft always passes and rescues the first."""
    p = torch.tensor([[0.3, 0.7], [0.8, 0.2], [0.0, 1.0]])
    q, x = torch.tensor([[0.6, 0.4], [0.4, 0.6]]), torch.tensor([0, 0])
    verdict = verify_block(p, q, x, torch.tensor([0.9, 0.99]), closing_draws(2))
    assert verdict.path.tolist() == [True, True] and verdict.block.rescued.tolist() == [True, False]
    assert verdict.block.running.tolist() == pytest.approx([0.5, 1.0]) and int(verdict.closing) == 1
    # S_1 = max(0.5·0.8 − 0.4, 0) + max(0.5·0.2 − 0.6, 0) = 0, so the block never ends with the first draft.
    assert verdict.block.h.tolist() == pytest.approx([0.0, 1.0], abs=1e-6)


# ---- edges ---------------------------------------------------------------------------------------------------------


@quick
@given(st.integers(0, 10_000), st.integers(1, 5), st.booleans())
def test_greedy_verdicts_are_those_of_the_token_rule(seed, N, drawn):
    """One-hot p: no u changes the verdict."""
    generator = torch.manual_seed(seed)
    p = one_hot(torch.randint(3, (N + 1,), generator=generator), 3)
    tokens = torch.where(torch.rand(N, generator=generator) < 0.6, p[:N].argmax(-1), 0)
    q, u = one_hot(tokens, 3) if drawn else None, torch.rand(N, generator=generator)
    block, token = (rule(p, q, tokens, u, closing_draws(N)) for rule in (verify_block, verify_chain))
    for name in ("path", "tested", "last", "closing", "row"):
        assert torch.equal(getattr(block, name), getattr(token, name)), name
    assert not block.block.rescued.any()


@pytest.mark.parametrize("u", [0.0, ONE])
@pytest.mark.parametrize("N", [0, 1, 4])
def test_drafts_from_the_target_itself_are_always_accepted(N, u):
    """p = q: p_i = 1 and S_i = 0, where h_i would be 0/0."""
    q = rows(N, 5, 3) if N else torch.zeros(0, 5)
    p = torch.cat([q, rows(1, 5, 4)])
    tokens = draw(q, torch.full((N,), 0.3)) if N else torch.zeros(0, dtype=torch.long)
    verdict = verify_block(p, q, tokens, torch.full((N,), u), closing_draws(N))
    assert verdict.path.all() and int(verdict.last) == N


def test_after_a_draft_that_the_target_rules_out_nothing_is_accepted():
    """p_i = 0 stays 0, also where the next draft's p/q is too large for a float."""
    p = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    q = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1e-45, 1.0]])
    verdict = verify_block(p, q, torch.tensor([0, 1]), torch.zeros(2), closing_draws(2))
    assert int(verdict.last) == 0 and verdict.block.running.tolist() == [0.0, 0.0] == verdict.block.h.tolist()
    assert verdict.row.tolist() == pytest.approx([0.0, 1.0, 0.0])


@quick
@given(st.integers(0, 10_000), st.sampled_from([0.0, 2.0**-24, 0.5, ONE]))
def test_nothing_impossible_comes_out(seed, value):
    """p within 1e-8 of q, disjoint from it, or a point mass."""
    q, N = rows(3, 5, seed), 3
    near = (q + 1e-8 * torch.randn(q.shape, generator=torch.manual_seed(seed))).clamp_min(0) * (q > 0)
    for p in (near, torch.where(q > 0, 0.0, 1.0) + 1e-3 * q, one_hot(q.argmin(-1), 5)):
        p = torch.cat([p / p.sum(-1, keepdim=True), rows(1, 5, seed + 1)])
        tokens = draw(q, torch.rand(3, generator=torch.manual_seed(seed)))
        verdict = verify_block(p, q, tokens, torch.full((N,), value), closing_draws(N))
        assert torch.isfinite(verdict.row).all() and torch.isfinite(verdict.block.h).all()
        assert p[verdict.last, verdict.closing] > 0, "a token that the target rules out was drawn"
        assert all(p[i, tokens[i]] > 0 for i in verdict.path.nonzero()[:, 0].tolist())


def test_one_hot_drafts_are_accepted_with_the_same_chances_by_both_rules():
    model = table_model(4, 2)
    for tokens in product(range(4), repeat=2):
        p = torch.stack([model(tokens[:i]) for i in range(3)])
        laws = []
        for accept, integrate in ((verify_block, block_law), (verify_chain, law)):
            found = integrate(as_rule(accept)(p, None, torch.tensor(tokens)), 2)
            laws.append({kept: mass for kept, mass, _ in found})
        assert all(abs(laws[0].get(k, 0.0) - laws[1].get(k, 0.0)) < 1e-6 for k in {*laws[0], *laws[1]})
