"""The target's own int4 copy as a drafter: exact, nearly always right, and it leaves the target's cache as it was."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value, two_token_law
from tiny_pairs import engine_of, generated, ids_of, model_folder, request, run

from engine.config import SamplingParams
from engine.decoding.loop import TRUE_RULES
from engine.errors import Unavailable
from engine.tools.exactness.mutants import MUTANTS
from engine.trace.costs import CostModel
from engine.trace.trace import fold

pytestmark = pytest.mark.usefixtures("own_cache")
WIDE = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 272}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    root = tmp_path_factory.mktemp("int4")
    model_folder(root / "narrow", vocab_size=272)
    model_folder(root / "small heads", num_attention_heads=8, **WIDE)
    return SimpleNamespace(root=root, model=model_folder(root / "target", **WIDE))


@pytest.mark.parametrize("gamma", [4, "auto"])
def test_greedy_output_is_the_targets_own_whatever_it_drafts(pairs, gamma):
    engine = engine_of(pairs)
    whole = run(engine, "quantised", gamma=gamma, max_new_tokens=40)
    prompt, ids = ids_of(whole)
    assert ids == generated(pairs.model, prompt, 40)
    counts = Counter(token.status for r in whole.rounds for token in r.tokens)
    assert gamma == "auto" or counts["accepted"] > counts["rejected"], "although these weights were never trained"
    assert all(r.draft_steps >= len(r.parents) for r in whole.rounds)


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "runs"), [(None, 300), ("q-ignored", 300)])
def test_sampled_output_has_the_targets_law_and_ignoring_q_is_caught(pairs, mutant, runs):
    """The first two tokens of many seeds are tested against the target's joint law in transformers."""
    rules = next((each.rules for each in MUTANTS if each.name == mutant), TRUE_RULES)
    engine, sampling, seen = engine_of(pairs), SamplingParams(1.2, top_k=3), Counter()
    for seed in range(runs):
        asked = request(engine.pair.name, "quantised", gamma=2, max_new_tokens=2, seed=seed, sampling=sampling)
        prompt, ids = ids_of(fold(engine.run(replace(asked, trace=False), rules=rules, drafts_first=True)))
        seen[tuple(ids)] += 1
    p_value = joint_p_value(seen, two_token_law(pairs.model, prompt, sampling))
    assert p_value < CAUGHT if mutant else p_value > FALSE_ALARM


def test_it_writes_only_after_the_targets_tokens(pairs, monkeypatch):
    engine = engine_of(pairs)
    engine._costs = dict.fromkeys(("none", "quantised"), CostModel(0.5, {1: 1.0, 16: 1.5}, 200, 0.001))
    drafter, target, same = engine.drafts.drafter("quantised"), engine.target.runner, []
    propose = drafter.propose

    def watched(committed, *asked):
        before = target.cache.keys[:, :, : target.length].clone()
        draft = propose(committed, *asked)
        after = target.cache.keys[:, :, : target.length]
        same.append(target.length == len(committed) - 1 and torch.equal(after, before))
        return draft

    monkeypatch.setattr(drafter, "propose", watched)
    run(engine, "quantised", max_new_tokens=20)
    assert same and all(same)


@pytest.mark.parametrize(
    "target, settings, words",
    [
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
