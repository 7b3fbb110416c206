"""The promise itself: through the real loop, with any drafter, the output is distributed as the target's own.

Every check is a chi-squared at a false-alarm rate of 1e-4; the seeds are fixed, so a failure is a change in the code.
`test_mutants.py` shows that the same check catches rules that are wrong.
"""

import pytest
from chi_squared import FALSE_ALARM, markov_p_value
from toy_block import toy_block
from toy_laws import PROMPT, SAMPLINGS, lookup_p_value, pair, slow, whole_p_value

from engine.config import ACCEPTANCE, SamplingParams
from engine.tools.exactness import toy_models
from engine.tools.exactness.toy_models import (
    ToyTreeDrafter,
    exact_distribution,
    generate,
    make_drafter,
)


# The passes of a round do not depend on the sampling, so each drafter and rule gets every sampling and every γ once,
# and not all pairs of them.
@pytest.mark.parametrize(("name", "gamma"), [("all", 4), *slow(("plain", 1))])
@pytest.mark.parametrize(("method", "acceptance"), [("ngram", "token"), ("lm", "token"), ("lm", "block")])
def test_chains(method, acceptance, name, gamma):
    target, draft = pair(6)
    settings = {"sampling": SAMPLINGS[name], "gamma": gamma, "max_new_tokens": 1000, "acceptance": acceptance}
    tokens = generate(target, make_drafter(method, draft), PROMPT, **settings)
    assert markov_p_value(target, tokens, SAMPLINGS[name]) > FALSE_ALARM


@pytest.mark.parametrize(("name", "acceptance"), [("all", "token"), *slow(("plain", "block"))])
def test_blocks_in_which_each_guess_changes_the_next(name, acceptance):
    """A long run is tested by contexts, and many short ones by four tokens at once."""
    target, draft = pair(6)
    sampling, settings = SAMPLINGS[name], {"gamma": 3, "acceptance": acceptance}
    tokens = generate(target, toy_block(draft), PROMPT, sampling=sampling, max_new_tokens=1000, **settings)
    assert markov_p_value(target, tokens, sampling) > FALSE_ALARM
    target, draft = pair(4, 5)
    assert whole_p_value(target, toy_block(draft), sampling, 500, 4, max_new_tokens=6, **settings) > FALSE_ALARM


@pytest.mark.parametrize("acceptance", ["token", "block"])
@pytest.mark.parametrize("siblings", ["without_replacement", *slow("independent", "top")])
@pytest.mark.parametrize(("name", "gamma"), [("all", 3), *slow(("plain", 1))])
def test_a_trees_output_follows_the_targets_law(siblings, acceptance, name, gamma):
    target, draft = pair(8, seed=5)
    drafter = ToyTreeDrafter(draft, siblings, widths=(2 + (acceptance == "token"), 1, 2) if gamma > 1 else (3,))
    settings = {"sampling": SAMPLINGS[name], "gamma": gamma, "max_new_tokens": 700, "acceptance": acceptance}
    assert markov_p_value(target, generate(target, drafter, PROMPT, **settings), SAMPLINGS[name]) > FALSE_ALARM


@pytest.mark.parametrize("name", ["all", *slow("plain")])
def test_trees_of_lookup(name):
    assert lookup_p_value(SAMPLINGS[name], 300) > FALSE_ALARM


# With a penalty the law depends on everything said so far, drafts of the same round included.
LAWS = {
    "top-k": (SamplingParams(0.8, top_k=4), 3, 700),
    "penalty": (SamplingParams(1.0, repetition_penalty=3.0), 7, 500),
}


@pytest.mark.parametrize(("method", "law"), [
    ("lm", "top-k"), ("lm", "penalty"),
    *slow(("none", "penalty"), ("without_replacement", "penalty"), ("independent", "penalty")),
    *slow(("without_replacement", "top-k"), ("independent", "top-k")),  # shows siblings that leave p
])  # fmt: skip
def test_the_joint_law_of_whole_outputs(method, law):
    """Three tokens are tested at once, which also shows that seeds are independent."""
    sampling, seed, runs = LAWS[law]
    target, draft = pair(6, seed)
    drafter = make_drafter(method, draft)
    assert whole_p_value(target, drafter, sampling, runs, 3, gamma=2, max_new_tokens=3) > FALSE_ALARM


TRUNCATED = SamplingParams(0.8, top_k=4, top_p=0.9)


@pytest.mark.parametrize(("method", "gamma", "runs", "sampling"), [
    ("lm", 3, 500, SamplingParams(1.0)),
    *slow(("lm", 3, 500, TRUNCATED), ("without_replacement", 2, 300, TRUNCATED), ("top", 2, 400, SamplingParams(1.0))),
])  # fmt: skip
def test_the_joint_law_of_whole_outputs_by_blocks(method, gamma, runs, sampling):
    """Four tokens are tested at once: three drafts of a chain, or two of a tree, can be accepted together."""
    target, draft = pair(4, 5)
    settings = {"gamma": gamma, "max_new_tokens": 3 + gamma, "acceptance": "block"}
    assert whole_p_value(target, make_drafter(method, draft), sampling, runs, 4, **settings) > FALSE_ALARM


def test_the_weather_pair_is_what_the_lessons_say():
    target, draft = toy_models.weather_pair()
    assert target.probabilities([0], SamplingParams(1.0)).tolist() == pytest.approx([0.6, 0.3, 0.1])
    assert draft.probabilities([1, 0], SamplingParams(1.0)).tolist() == pytest.approx([0.4, 0.4, 0.2])
    assert exact_distribution(target, [0], 2)[1, 2] == pytest.approx(0.3 * 0.3)


@pytest.mark.parametrize("acceptance", ACCEPTANCE)
@pytest.mark.parametrize("method", ["none", "ngram", "lm", "block", "independent", "without_replacement", "top"])
def test_greedy_has_one_answer(method, acceptance):
    target, draft = pair(6, seed=2)
    (expected,) = [tokens for tokens, mass in exact_distribution(target, PROMPT, 4, SamplingParams()).items() if mass]
    settings = {"sampling": SamplingParams(), "gamma": 3, "max_new_tokens": 4, "acceptance": acceptance}
    drafter = toy_block(draft) if method == "block" else make_drafter(method, draft)
    assert tuple(generate(target, drafter, PROMPT, **settings)) == expected
