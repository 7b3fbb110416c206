"""The check of `test_exactness.py` notices every mutant and passes the correct rules."""

import pytest
from chi_squared import CAUGHT, is_caught
from toy_block import ForgetfulBlock, toy_block
from toy_laws import lookup_p_value, slow

from engine.config import SamplingParams
from engine.decoding.loop import TRUE_RULES, Rules
from engine.drafters.block import BlockDrafter
from engine.tools.exactness.mutants import MUTANTS, Mutant, block_rules, rules, traversal_rules
from engine.tools.exactness.results import MISTAKES
from engine.tools.exactness.toy_models import PLAIN, ToyLM, generate, make_drafter, toy_decoder

PROMPT = [0, 1]
SAMPLING = SamplingParams(0.6, top_p=0.97)
TARGET = ToyLM.random(6, seed=0, spread=0.5)
DRAFT = TARGET.with_noise(1.5, seed=1)


# One each of: drafts tested, siblings tested, what a refusal leaves, a draw used twice, the closing row.
FAST = ("p-row-late", "sibling-residual", "no-residual", "u-reused-for-closing", "bonus-from-q", "block-stops")


# Rows after each word, of pairs on which these mistakes show; the others show on any.
REVEALING = {
    "block-same-u": ([[0.67, 0.33], [0.33, 0.67]], [[0.98, 0.02], [0.98, 0.02]]),
    "block-residual": (
        [[0.41, 0.58, 0.01], [0.36, 0.63, 0.01], [0.74, 0.25, 0.01]],
        [[0.01, 0.27, 0.72], [0.8, 0.18, 0.02], [0.11, 0.85, 0.04]],
    ),
    **dict.fromkeys(
        ("traversal-weight", "traversal-q-unscaled"),
        (
            [[0.01, 0.03, 0.96], [0.14, 0.03, 0.83], [0.26, 0.05, 0.69]],
            [[0.03, 0.24, 0.73], [0.94, 0.04, 0.02], [0.01, 0.66, 0.33]],
        ),
    ),
    "traversal-same-draws": (
        [[0.02, 0.02, 0.96], [0.49, 0.02, 0.49], [0.45, 0.53, 0.02]],
        [[0.25, 0.25, 0.5], [0.49, 0.02, 0.49], [0.9, 0.08, 0.02]],
    ),
    "ancestor-residual": ([[0.3, 0.1, 0.6]] * 3, [[0.8, 0.18, 0.02]] * 3),
}


def long_run(drafter, method: str, rule: Rules, acceptance: str = "token"):
    settings = {"sampling": SAMPLING, "gamma": 3 if method == "lm" else 1, "max_new_tokens": 3000}
    return toy_decoder(TARGET, drafter, PROMPT, rules=rule, trace=False, acceptance=acceptance, **settings)


def revealing_run(name: str, mutant: Mutant | None = None):
    """A run of the mutant ``name``, or of the true rules, where that mistake shows."""
    target, draft = (ToyLM.from_rows(rows, "abc"[: len(rows)]) for rows in REVEALING[name])
    mistake = MISTAKES[name]
    gamma = 5 if mistake.method == "lm" else 2 if mistake.acceptance == "block" else 1
    settings = {"sampling": PLAIN, "gamma": gamma, "acceptance": mistake.acceptance}
    drafter = mutant.drafter(draft) if mutant else make_drafter(mistake.method, draft)
    rule = mutant.rules if mutant else TRUE_RULES
    return target, toy_decoder(target, drafter, [0, 1], rules=rule, max_new_tokens=3000, trace=False, **settings)


@pytest.mark.parametrize(
    "mutant", [pytest.param(m, id=m.name, marks=() if m.name in FAST else pytest.mark.slow) for m in MUTANTS]
)
def test_every_mutant_is_caught(mutant):
    if mutant.name in REVEALING:
        target, run = revealing_run(mutant.name, mutant)
        assert is_caught(run, target, PLAIN)
        return
    mistake = mutant.mistake
    run = long_run(mutant.drafter(DRAFT), mistake.method, mutant.rules, mistake.acceptance)
    assert is_caught(run, TARGET, SAMPLING)


@pytest.mark.parametrize("kind", [BlockDrafter, ForgetfulBlock])
def test_a_block_tested_by_what_its_places_forgot_is_caught(kind):
    run = long_run(toy_block(DRAFT, kind), "lm", TRUE_RULES)
    assert is_caught(run, TARGET, SAMPLING) == (kind is ForgetfulBlock)


@pytest.mark.slow
def test_a_wrong_row_after_the_branches_of_lookup_is_caught():
    assert lookup_p_value(SAMPLING, 250, rules(closing_row=lambda row, q: row)) < CAUGHT


@pytest.mark.parametrize("acceptance", ["token", *slow("block")])
@pytest.mark.parametrize("method", ["lm", *slow("independent", "without_replacement")])
def test_the_true_rules_pass_the_same_check(method, acceptance):
    assert not is_caught(long_run(make_drafter(method, DRAFT), method, Rules(), acceptance), TARGET, SAMPLING)


@pytest.mark.slow
# "traversal-q-unscaled" has the pair of "traversal-weight".
@pytest.mark.parametrize("name", [name for name in REVEALING if name != "traversal-q-unscaled"])
def test_the_true_rules_pass_where_these_mistakes_show(name):
    target, run = revealing_run(name)
    assert not is_caught(run, target, PLAIN)


@pytest.mark.parametrize(("method", "acceptance", "parts"), [
    *((method, "token", rules) for method in ("lm", "independent", "without_replacement", "top")),
    *((method, "block", traversal_rules) for method in ("without_replacement", "top")),
    ("lm", "block", block_rules),
])  # fmt: skip
def test_the_parts_the_mutants_are_made_of_are_right(method, acceptance, parts):
    """Put together without a mistake they give the very tokens that the true rules give."""
    settings = {"sampling": SAMPLING, "gamma": 2, "max_new_tokens": 60, "acceptance": acceptance}
    built = generate(TARGET, make_drafter(method, DRAFT), PROMPT, rules=parts(), **settings)
    assert built == generate(TARGET, make_drafter(method, DRAFT), PROMPT, **settings)
