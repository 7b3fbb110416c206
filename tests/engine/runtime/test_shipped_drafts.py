"""The shipped drafts on the real target: exact, as good as they were, and of use to others.

Skipped with the reason where the target's weights are not here; with REQUIRE_WEIGHTS=1 that is a failure.
"""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from chi_squared import FALSE_ALARM, joint_p_value, two_token_law
from real_model import PAIR, PROMPTS
from tiny_pairs import ids_of

from engine.config import RunConfig, SamplingParams
from engine.models.heads.loader import load_head
from engine.models.onnx.graph import Graph
from engine.models.tensors.grouped import GroupedWeight
from engine.trace.costs import CostModel
from engine.trace.events import Round
from engine.trace.metrics import compute_metrics
from engine.trace.trace import fold
from engine.weights.catalogue import get_pair

CHECKED = ("code-2", "chat-3")
GOLDEN = {  # τ at γ = 4, greedy, 64 tokens, of each prompt that is checked
    "lm": (2.000, 1.333),
    "eagle-chain": (2.370, 1.561),
    "block": (1.778, 1.455),
    "medusa": (1.306, 1.208),
    "exit": (1.829, 1.231),
}
BEGUN = "<|im_start|>user\nTell me about dogs.<|im_end|>\n<|im_start|>assistant\nDogs are"  # drafts know replies only

pytestmark = pytest.mark.xdist_group("real-model")


def test_the_drafts_run_in_eight_bits_and_the_target_never_does(engine, monkeypatch):
    """α was counted that way."""
    target, drafts, products = engine.target.runner.model, get_pair(PAIR).drafts, []
    assert (target.precision, engine.drafts.drafter("lm").runner.model.precision) == ("fp32", "int8")
    real = Graph.linear

    def noted(graph, x, name, weight, *bias):
        products.append((graph.precision, type(weight)))
        return real(graph, x, name, weight, *bias)

    monkeypatch.setattr(Graph, "linear", noted)
    for kind in ("eagle", "block", "medusa", "exit"):
        products.clear()
        with torch.inference_mode():
            load_head(kind, drafts[kind].folder, target)
        assert {*products} == {("int8", GroupedWeight)}


def run(engine, method, prompt, **settings):
    return fold(engine.run(RunConfig(prompt, method=method, **{"gamma": 4, "max_new_tokens": 64} | settings)))


def test_they_are_small_and_say_what_they_are():
    drafts = get_pair(PAIR).drafts
    assert [*drafts] == ["lm", "eagle", "block", "medusa", "exit"]
    assert all(spec.head == (name if name != "lm" else "") for name, spec in drafts.items())
    files = [f for spec in drafts.values() for f in Path(spec.folder).iterdir()]
    assert sum(f.stat().st_size for f in files) <= 32 * 2**20
    for spec in drafts.values():
        card = (spec.folder / "README.md").read_text(encoding="utf-8")
        assert all(part in card for part in ("## Data", "## Recipe", "Hardware", "## Acceptance", "seed"))


@pytest.fixture(scope="module")
def plain_text(engine):
    return cache(lambda prompt: run(engine, "none", PROMPTS[prompt], gamma=0).text)


@pytest.mark.parametrize("prompt", ["code-2", pytest.param("chat-3", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "method", ["eagle-chain", *(pytest.param(name, marks=pytest.mark.slow) for name in GOLDEN if name != "eagle-chain")]
)
def test_greedy_text_is_the_targets_own_and_tau_is_as_good_as_it_was(engine, plain_text, method, prompt):
    drafted = run(engine, method, PROMPTS[prompt])
    assert drafted.text == plain_text(prompt)
    assert compute_metrics(drafted).tau.value == pytest.approx(GOLDEN[method][CHECKED.index(prompt)], rel=0.05)


@pytest.mark.slow
def test_tree_keeps_more_than_a_chain_where_rows_are_cheap(engine, plain_text):
    flat = CostModel(0.035, {1: 1.0, 2: 1.01}, 200, 0.03)
    config = RunConfig(PROMPTS["code-2"], gamma="auto", max_new_tokens=48)
    chain, tree = (fold(engine.run(replace(config, method=m), costs=flat)) for m in ("eagle-chain", "eagle"))
    assert tree.text == chain.text and plain_text("code-2").startswith(tree.text)
    assert compute_metrics(tree).tau.value > 1.05 * compute_metrics(chain).tau.value
    assert max(len(r.parents) for r in tree.rounds) > 16


def until(count: int, events):
    """Yields the events of a run that has written as many tokens, and ends it."""
    written = 0
    for event in events:
        yield event
        written += len(event.emitted) if isinstance(event, Round) else 0
        if written >= count:
            return


@pytest.mark.slow
@pytest.mark.parametrize("acceptance", ["token", "block"])
def test_sampled_text_keeps_the_targets_law(engine, reference, acceptance):
    """The first two tokens of seeded runs with drawn trees have the target's own joint law; false alarm 1e-4, seeds
    fixed. test_heads.py counts the laws of every head on tiny models."""
    asked = RunConfig(
        BEGUN, method="eagle", gamma=3, sampling=SamplingParams(1.3, top_k=3), max_new_tokens=4, chat=False,
        acceptance=acceptance,
    )  # fmt: skip
    runs = [fold(until(2, engine.run(replace(asked, seed=seed, trace=False), drafts_first=True))) for seed in range(80)]
    first = Counter(t.status for r in runs for t in r.rounds[0].tokens)
    assert min(first["accepted"], first["rejected"]) > 10, "one side of the rule was hardly tried"
    seen = Counter(tuple(ids_of(each)[1][:2]) for each in runs)
    assert joint_p_value(seen, two_token_law(reference, ids_of(runs[0])[0], asked.sampling)) > FALSE_ALARM


@pytest.mark.slow
def test_auto_writes_what_plain_decoding_writes_whoever_drafts(engine):
    """One drafter with a model is cheap in each run, by its c or by the clock, so that it is on duty."""
    methods, v = ("quantised", "eagle", "block", "lm"), {1: 1.0, 16: 1.3}
    plain = run(engine, "none", PROMPTS["rewrite-1"], gamma=0, max_new_tokens=32)
    for cheap in methods:
        c, paces = dict.fromkeys(methods, 3.0) | {"ngram": 0.0, "corpus": 0.0}, dict.fromkeys(methods, 1.6)
        costs = CostModel(0.0, v, 200, 0.03, draft_costs=c | {cheap: 0.01}, paces=paces | {cheap: 0.7})
        drafted = fold(engine.run(RunConfig(PROMPTS["rewrite-1"], max_new_tokens=32), costs=costs))
        assert [t.id for t in drafted.emitted] == [t.id for t in plain.emitted]
        assert cheap in {r.drafter for r in drafted.rounds} <= {"", "ngram", "corpus", cheap}
        again = fold(engine.run(RunConfig(PROMPTS["rewrite-1"], max_new_tokens=32), costs=costs))
        assert [r.drafter for r in again.rounds] == [r.drafter for r in drafted.rounds], "costs decide, not the clock"
