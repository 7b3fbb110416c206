"""The check of `test_exactness.py` notices every mutant and passes the correct rules."""

import pytest
from chi_squared import FALSE_ALARM, is_caught, markov_p_value

from engine.config import SamplingParams
from engine.decoding.loop import Rules
from engine.exactness.mutants import MUTANTS, rules
from engine.exactness.toy_models import ToyLM, generate, make_drafter, toy_decoder

PROMPT = [0, 1]
SAMPLING = SamplingParams(0.6, top_p=0.97)
TARGET = ToyLM.random(6, seed=0, spread=0.5)
DRAFT = TARGET.with_noise(1.5, seed=1)


# One each of: drafts tested, siblings tested, what a refusal leaves, a draw used twice, the closing row.
FAST = ("p-row-late", "sibling-residual", "no-residual", "u-reused-for-closing", "bonus-from-q")


def long_run(drafter, method: str, rule: Rules):
    settings = {"sampling": SAMPLING, "gamma": 3 if method == "lm" else 1, "max_new_tokens": 3000}
    return toy_decoder(TARGET, drafter, PROMPT, rules=rule, trace=False, **settings)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(m, id=m.name, marks=() if m.name in FAST else pytest.mark.slow) for m in MUTANTS],
)
def test_every_mutant_is_caught(mutant):
    assert is_caught(long_run(mutant.drafter(DRAFT), mutant.mistake.method, mutant.rules), TARGET, SAMPLING)


@pytest.mark.parametrize("method", ["lm", "independent", "without_replacement"])
def test_the_true_rules_pass_the_same_check(method):
    run = long_run(make_drafter(method, DRAFT), method, Rules())
    assert not is_caught(run, TARGET, SAMPLING)
    assert markov_p_value(TARGET, run.committed[len(PROMPT) :], SAMPLING) > FALSE_ALARM


@pytest.mark.parametrize("method", ["lm", "independent", "without_replacement", "top"])
def test_the_parts_the_mutants_are_made_of_are_right(method):
    """Put together without a mistake they give the very tokens that the true rules give."""
    settings = {"sampling": SAMPLING, "gamma": 3, "max_new_tokens": 150}
    built = generate(TARGET, make_drafter(method, DRAFT), PROMPT, rules=rules(), **settings)
    assert built == generate(TARGET, make_drafter(method, DRAFT), PROMPT, **settings)


def test_the_list_is_long_enough_and_names_are_unique():
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS) >= 12 and names > {*FAST}
