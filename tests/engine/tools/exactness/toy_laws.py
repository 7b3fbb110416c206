"""Toy pairs, and how likely it is that many of their outputs follow the target's law."""

from collections import Counter

import pytest
from chi_squared import joint_p_value

from engine.config import SamplingParams
from engine.decoding.draft_length import AdaptiveGamma
from engine.decoding.loop import TRUE_RULES, Rules
from engine.drafters.ngram import NgramDrafter
from engine.tools.exactness.toy_models import ToyLM, exact_distribution, generate, toy_decoder

PROMPT = [0, 1]
SAMPLINGS = {"plain": SamplingParams(1.0), "all": SamplingParams(0.7, top_k=5, top_p=0.95, min_p=0.05)}


def pair(vocabulary: int, seed: int = 0) -> tuple[ToyLM, ToyLM]:
    target = ToyLM.random(vocabulary, seed, spread=0.8)
    return target, target.with_noise(1.0, seed + 1)


def whole_p_value(target: ToyLM, drafter, sampling: SamplingParams, runs: int, length: int, **settings) -> float:
    """Tests the first ``length`` tokens of many short runs at once, one per seed."""
    outputs = Counter(
        tuple(generate(target, drafter, PROMPT, seed=s, sampling=sampling, **settings)[:length]) for s in range(runs)
    )
    return joint_p_value(outputs, exact_distribution(target, PROMPT, length, sampling))


def slow(*values):
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def lookup_p_value(sampling: SamplingParams, runs: int, rules: Rules = TRUE_RULES) -> float:
    """Tests two tokens after a prompt whose end was followed by three words before, each of them a branch."""
    target, prompt, outputs = pair(6)[0], [0, 1, 2, 5, 0, 1, 3, 0, 1, 4, 4, 0, 1], Counter()
    for seed in range(runs):
        policy = AdaptiveGamma(0.0, {1: 1.0, 2: 1.0}, NgramDrafter.priors, limit=2)
        settings = {"gamma_policy": policy, "max_new_tokens": 4, "seed": seed, "rules": rules, "trace": False}
        run = toy_decoder(target, NgramDrafter(), prompt, sampling, **settings)
        first, *_ = run.rounds()
        assert first.parents.count(0) == 3
        outputs[tuple(run.text.ids[len(prompt) :][:2])] += 1
    return joint_p_value(outputs, exact_distribution(target, prompt, 2, sampling))
