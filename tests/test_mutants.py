"""Rules that are wrong in one place are noticed by the check of `test_exactness.py`; the right ones are not accused."""

import pytest
from tiny import CAUGHT, FALSE_ALARM, markov_p_value, one_thread  # noqa: F401

from engine.broken import MUTANTS, chain_rule, tree_rule
from engine.config import SamplingParams
from engine.decode import Rules
from engine.toy import ToyLM, drafter_for, generate

PROMPT = [0, 1]
SAMPLING = SamplingParams(0.6, top_p=0.97)
TARGET = ToyLM.random(6, seed=0, spread=0.5)
DRAFT = TARGET.near(1.5, seed=1)


def p_value(drafter, method: str, rules: Rules) -> float:
    gamma = 3 if method == "lm" else 1
    settings = {"sampling": SAMPLING, "gamma": gamma, "max_new_tokens": 3000, "rules": rules}
    return markov_p_value(TARGET, generate(TARGET, drafter, PROMPT, **settings), SAMPLING)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_caught(mutant):
    assert p_value(mutant.drafter(DRAFT), mutant.method, mutant.rules) < CAUGHT


@pytest.mark.parametrize("method", ["lm", "independent", "without_replacement"])
def test_the_true_rules_pass_the_same_check(method):
    assert p_value(drafter_for(method, DRAFT), method, Rules()) > FALSE_ALARM


@pytest.mark.parametrize("method", ["lm", "independent", "without_replacement", "top"])
def test_the_parts_the_mutants_are_made_of_are_right(method):
    """Put together without a mistake they give the very tokens that the true rules give."""
    settings = {"sampling": SAMPLING, "gamma": 3, "max_new_tokens": 150}
    parts = Rules(chain=chain_rule(), tree=tree_rule())
    built = generate(TARGET, drafter_for(method, DRAFT), PROMPT, rules=parts, **settings)
    assert built == generate(TARGET, drafter_for(method, DRAFT), PROMPT, **settings)


def test_the_list_is_long_enough_and_names_are_unique():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 12
