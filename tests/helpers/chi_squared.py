"""Tests with chi-squared whether tokens are distributed as a target's own.

False alarm: a right rule fails one test with a chance of 1e-4 (FALSE_ALARM), had the seeds not been fixed. A mutant
must fall below 1e-6 (CAUGHT). It is looked at again after every 300 tokens and let go once it is caught; by the union
bound ten looks would accuse a right rule with a chance of 1e-5 at most. Power: each of the mutants is caught within
3,000 tokens. Because seeds are fixed, each of these results is the same every time.
"""

from collections import Counter
from collections.abc import Callable

import torch
from scipy.stats import chi2
from tiny_models import logits_of

from engine.sampling.warping import warp
from engine.tools.exactness.distribution_test import chi_squared

FALSE_ALARM = 1e-4
CAUGHT = 1e-6
TOKENS_BETWEEN_LOOKS = 300


def joint_p_value(outputs: Counter, law: dict) -> float:
    """How probable so large a deviation is if the outputs were drawn from ``law``."""
    total = sum(outputs.values())
    statistic, freedom = chi_squared(outputs, {cell: total * mass for cell, mass in law.items()})
    return float(chi2.sf(statistic, freedom))


def two_token_law(model, prompt: list[int], sampling) -> dict:
    """A transformers model's own joint law of the two tokens after ``prompt``."""
    return joint_law(lambda ids: logits_of(model, ids)[-1:], prompt, sampling)


def joint_law(logits_after: Callable[[list[int]], torch.Tensor], prompt: list[int], sampling) -> dict:
    """The joint law of the two tokens after ``prompt``. ``logits_after``: ids → the next token's logits, [1, V]."""
    law, first = {}, warp(logits_after(prompt), sampling)[0]
    for a in first.nonzero()[:, 0].tolist():
        second = warp(logits_after([*prompt, a]), sampling)[0]
        law |= {(a, b): float(first[a] * second[b]) for b in second.nonzero()[:, 0].tolist()}
    return law


def markov_p_value(model, tokens: list[int], sampling) -> float:
    """Tests one long run of a ToyLM: given the two tokens before it, each next token is a draw from p.

    One chi-squared a context, summed: together they say what the joint law of the whole run says.
    """
    following: dict[tuple, Counter] = {}
    for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False):
        following.setdefault((a, b), Counter())[c] += 1
    statistic, freedom = 0.0, 0
    for context, seen in following.items():
        row = model.probabilities(context, sampling).double().tolist()
        total = sum(seen.values())
        part, degrees = chi_squared(seen, {token: total * mass for token, mass in enumerate(row) if mass > 0})
        statistic, freedom = statistic + part, freedom + degrees
    return float(chi2.sf(statistic, freedom)) if freedom else float(statistic == 0)


def is_caught(decoder, model, sampling) -> bool:
    """Runs a toy decoder until its tokens cannot be the model's own (p < CAUGHT); False if it ends before."""
    start = look = len(decoder.text.ids)
    for _ in decoder.rounds():
        if len(decoder.text.ids) >= look + TOKENS_BETWEEN_LOOKS:
            look = len(decoder.text.ids)
            if markov_p_value(model, decoder.text.ids[start:], sampling) < CAUGHT:
                return True
    return markov_p_value(model, decoder.text.ids[start:], sampling) < CAUGHT
