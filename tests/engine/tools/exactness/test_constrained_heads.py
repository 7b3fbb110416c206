"""Under a constraint the drafts of every head keep the target's law, too: of chains, blocks, and trees that are drawn.

Whole answers of tiny models are counted. Their law is known from the target alone, under the mask of each prefix.
"""

from contextlib import suppress
from dataclasses import replace

import pytest
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value
from head_cases import CASE_OF, CHEAP, load_unrounded
from tiny_pairs import END, request
from toy_laws import slow

from engine.config import Constraint, SamplingParams
from engine.decoding.constrained import Constrained
from engine.decoding.loop import Rules
from engine.errors import BadInput
from engine.tools.exactness.distribution_test import count_outcomes, engine_runs, exact_law, mutant_of
from engine.trace.costs import CostModel

ANSWERS, LONGEST = Constraint("regex", "a[a-d]{2}|[bc][ab]d?"), 4
PATHS = [  # method, γ, acceptance
    ("block", 3, "token"),
    *slow(("eagle", 3, "token"), ("eagle", 3, "block"), ("eagle", "auto", "token"), ("eagle-chain", 2, "token"),
          ("medusa", 2, "token"), ("exit", 2, "token")),
]  # fmt: skip


@pytest.fixture(scope="module")
def engines(heads):
    loaded = {}

    def engine(method: str):
        if method not in loaded:
            loaded[method] = load_unrounded(heads.pair(CASE_OF[method].kind), method, "onnx")
            costs = CostModel(0.001, {1: 1.0, 2: 1.0005}, 200, 0.001) if method == "eagle" else CHEAP
            loaded[method]._costs |= dict.fromkeys(("none", *loaded[method].methods), costs)
        return loaded[method]

    return engine


def p_value(engine, method, gamma, acceptance, runs: int, **more) -> float:
    config = request(
        engine.pair.name, method, gamma=gamma, acceptance=acceptance, sampling=SamplingParams(1.3), constraint=ANSWERS
    )
    draws = count_outcomes(engine_runs(engine, config, LONGEST, **more), range(runs), LONGEST)
    assert runs / 5 < draws.accepted < draws.tested - runs / 20, "one side of the rule was hardly tried"
    return joint_p_value(draws.counts, exact_law(engine, config, LONGEST))


@pytest.mark.parametrize(("method", "gamma", "acceptance"), PATHS)
def test_answers_with_a_head_have_the_constrained_targets_law(engines, method, gamma, acceptance):
    assert p_value(engines(method), method, gamma, acceptance, 300) > FALSE_ALARM


@pytest.mark.parametrize("name", ["mask-stays", "requests-mask"])
def test_a_tree_under_a_wrong_mask_leaves_the_grammar(engines, name):
    engine = engines("eagle")
    config = request(engine.pair.name, "eagle", gamma=3, sampling=SamplingParams(1.3), constraint=ANSWERS)
    runs = without_errors(engine_runs(engine, config, LONGEST, rules=mutant_of(name).rules))
    draws = count_outcomes(runs, range(60), LONGEST)
    assert {*draws.counts} - {*exact_law(engine, config, LONGEST)} and draws.accepted > 10


class HalfOfQ(Constrained):
    """Halves each q, as if half of it had been on words that the grammar forbids, and the rest were not scaled."""

    def mask_draft(self, draft, is_window=False):
        allowed = super().mask_draft(draft, is_window)
        q = allowed.draft.q
        return allowed if q is None else allowed._replace(draft=replace(allowed.draft, q=q / 2))


@pytest.mark.slow
@pytest.mark.parametrize(("method", "gamma"), [("eagle", 3), ("medusa", 2), ("block", 3)])
def test_a_head_with_a_q_that_is_not_scaled_is_caught(engines, method, gamma):
    assert p_value(engines(method), method, gamma, "token", 300, rules=Rules(constrained=HalfOfQ)) < CAUGHT


def without_errors(runs):
    """Ends a run where it has left the grammar, so that nothing can follow."""

    def rounds(seed):
        with suppress(BadInput):
            yield from runs(seed)

    return rounds


def test_the_law_is_that_of_whole_answers(engines):
    engine = engines("medusa")
    law = exact_law(engine, request(engine.pair.name, sampling=SamplingParams(1.3), constraint=ANSWERS), LONGEST)
    assert len(law) == 24 and sum(law.values()) == pytest.approx(1.0)
    assert all(answer[-1] == END and len(answer) in (3, 4) for answer in law)
