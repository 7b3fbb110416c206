"""The target's own int4 copy as a drafter: exact, nearly always right, and it leaves the target's cache as it was."""

from collections import Counter

import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value, two_token_law
from tiny_pairs import engine_of, generated, ids_of, model_folder, request, run

from engine.config import SamplingParams
from engine.decoding.loop import TRUE_RULES
from engine.errors import Unavailable
from engine.exactness.mutants import MUTANTS
from engine.trace.events import CostModel
from engine.trace.trace import fold

pytestmark = pytest.mark.usefixtures("own_cache")
WIDE = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 272}


class Pairs:
    def __init__(self, root):
        self.root = root
        self.model = model_folder(root / "target", **WIDE)
        model_folder(root / "narrow", vocab_size=272)
        model_folder(root / "small heads", num_attention_heads=8, **WIDE)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return Pairs(tmp_path_factory.mktemp("int4"))


@pytest.mark.parametrize("gamma", [4, "auto"])
def test_greedy_output_is_the_targets_own_whatever_it_drafts(pairs, gamma):
    engine = engine_of(pairs)
    whole = run(engine, "quantised", gamma=gamma, max_new_tokens=40)
    prompt, ids = ids_of(whole)
    assert ids == generated(pairs.model, prompt, 40)
    counts = Counter(token.status for r in whole.rounds for token in r.tokens)
    assert gamma == "auto" or counts["accepted"] > counts["rejected"], "although these weights were never trained"
    assert all(r.draft_steps >= len(r.parents) for r in whole.rounds)


def p_value(pairs, rules=TRUE_RULES, runs=400):
    """Of the first two tokens of many seeds, against the target's joint law in transformers."""
    engine, sampling, seen = engine_of(pairs), SamplingParams(1.2, top_k=3), Counter()
    for seed in range(runs):
        asked = request(engine.pair.name, "quantised", gamma=2, max_new_tokens=2, seed=seed, sampling=sampling)
        prompt, ids = ids_of(fold(engine.run(asked, rules=rules)))
        seen[tuple(ids)] += 1
    return joint_p_value(seen, two_token_law(pairs.model, prompt, sampling))


def test_sampled_output_has_the_targets_law(pairs):
    assert p_value(pairs) > FALSE_ALARM


def test_a_rule_that_ignores_q_is_caught_with_it(pairs):
    assert p_value(pairs, next(mutant.rules for mutant in MUTANTS if mutant.name == "q-ignored")) < CAUGHT


def test_it_writes_only_behind_the_targets_tokens(pairs):
    engine = engine_of(pairs)
    engine._costs = dict.fromkeys(("none", "quantised"), CostModel(0.5, {1: 1.0, 16: 1.5}, 200, 0.001))
    drafter, cache_of, before = engine.drafts.drafter("quantised"), engine.target.runner, []

    class Watched(type(drafter)):
        def propose(self, committed, gamma, position):
            cache, length = cache_of.cache, cache_of.length
            keys = cache.keys[:, :, :length].clone()
            draft = super().propose(committed, gamma, position)
            before.append(torch.equal(cache.keys[:, :, :length], keys) and cache.length == length == len(committed) - 1)
            return draft

    drafter.__class__ = Watched
    run(engine, "quantised", max_new_tokens=20)
    assert before and all(before)


@pytest.mark.parametrize(
    "target, settings, words",
    [
        ("target", {"precision": "int4"}, "drafts for a target in fp32 on our own decoder, not in int4"),
        ("target", {"precision": "int8"}, "drafts for a target in fp32 on our own decoder, not in int8"),
        ("small heads", {}, "quicker than its target only where ONNX Runtime runs both"),
        ("narrow", {}, "int4 rounds groups of 32 weights, but a layer here has 48 inputs"),
    ],
)
def test_where_it_cannot_run_it_says_so_and_auto_does_without(pairs, target, settings, words):
    engine = engine_of(pairs, target, **settings)
    with pytest.raises(Unavailable, match=words):
        engine.drafts.drafter("quantised")
    assert {*engine.drafts.competitors()} == {"ngram"} and run(engine, "auto", max_new_tokens=4).finished
    notes = []
    engine.on_progress(lambda share, note: notes.append(note))
    assert run(engine, "auto", max_new_tokens=4).finished
    assert not any("int4 copy" in note for note in notes), "it is not loaded again"
