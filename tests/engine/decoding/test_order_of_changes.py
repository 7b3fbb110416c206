"""A row is changed in the order that the docs say: penalties, mask, temperature, truncation. Checked by plain sums.

The sums know nothing of the engine: they are Python's floats on numbers written here, where every order that has the
truncation elsewhere gives another p.
"""

import math
from itertools import permutations

import pytest
import torch
from closeness import approx

from engine.config import Constraint, SamplingParams
from engine.tools.exactness.toy_grammar import text_reader
from engine.tools.exactness.toy_models import ToyLM, make_drafter, record_trace

WORDS, END = ("a", "b", "c", "d", "e", "."), 5
LOGITS = [1.2, 3.0, 1.0, 0.9, 0.5, -1.0]  # after any word; b, the likeliest, is forbidden
SEEN, ALLOWED, SAMPLING = (3, 5), (0, 2, 3, 4), SamplingParams(2.0, top_p=0.65, repetition_penalty=2.5)
DOCUMENTED = ("penalty", "mask", "temperature", "truncation")


def changed(order) -> dict[int, float]:
    """p of each word after these four changes in turn."""
    row = dict(enumerate(LOGITS))
    for change in order:
        if change == "penalty":
            row |= {w: row[w] / 2.5 if row[w] > 0 else row[w] * 2.5 for w in SEEN if w in row}
        elif change == "mask":
            row = {word: logit for word, logit in row.items() if word in ALLOWED}
        elif change == "temperature":
            row = {word: logit / 2.0 for word, logit in row.items()}
        else:
            row = {word: row[word] for word in nucleus(shares(row))}
    return shares(row)


def shares(row: dict[int, float]) -> dict[int, float]:
    total = sum(math.exp(logit) for logit in row.values())
    return {word: math.exp(logit) / total for word, logit in row.items()}


def nucleus(p: dict[int, float]) -> list[int]:
    """The likeliest words, up to and with the one that crosses 0.65."""
    kept, mass = [], 0.0
    for word in sorted(p, key=lambda word: -p[word]):
        if mass < 0.65:
            kept.append(word)
        mass += p[word]
    return kept


def first_row(method: str, gamma: int) -> dict[int, float]:
    """p of the first token of a run whose answer is one of four words."""
    target = ToyLM(torch.tensor(LOGITS).expand(7, 6, 6), WORDS)
    trace = record_trace(
        target, make_drafter(method, target.with_noise(0.5, 1)), [3, 5], sampling=SAMPLING, gamma=gamma, eos=[END],
        reader=text_reader(tuple("acde"), WORDS, END), constraint=Constraint("choice", "a\nc\nd\ne"),
    )  # fmt: skip
    assert bool(trace.rounds[0].parents) == bool(gamma)
    return {word.id: word.mass for word in trace.rounds[0].tokens[0].p_top.top if word.mass > 0}


@pytest.mark.parametrize(("method", "gamma"), [("ngram", 0), ("lm", 1), ("independent", 1), ("top", 1)])
def test_p_is_what_the_documented_order_gives(method, gamma):
    assert first_row(method, gamma) == approx(changed(DOCUMENTED))


def test_another_order_of_truncation_gives_another_p():
    right = changed(DOCUMENTED)
    equal = [order for order in permutations(DOCUMENTED) if changed(order) == approx(right)]
    assert {order[-1] for order in equal} == {"truncation"} and len(equal) == 6, "only what comes before it commutes"
