"""What leaving the target early, or branching, would bring: agreement counted by hand, and predictions from costs."""

import json
from dataclasses import replace

import pytest
import torch
from head_cases import load_unrounded
from tiny_pairs import ids_of, run

from engine.bench import exits, shapes
from engine.bench.prompts import Prompt
from engine.trace.events import CostModel


@pytest.fixture(scope="module")
def exiting(heads):
    return load_unrounded(heads.pair("exit"), "exit")


@pytest.fixture(scope="module")
def branching(heads):
    return load_unrounded(heads.pair("eagle"), "eagle")


@torch.inference_mode()
def test_each_layer_is_read_as_the_last_one_is(heads, exiting, monkeypatch):
    """Agreement counted by hand from transformers' states, on the tokens that the target wrote."""
    monkeypatch.setattr(exits, "_costs", lambda runner: {0: 0.2, 1: 0.6, 2: 1.0})
    for method in ("none", "exit"):
        monkeypatch.setitem(exiting._costs, method, CostModel(0.5, {1: 1.0, 2: 1.1}, 200, 0.001))
    texts = ["the cat, the hat", "a b c"]
    results = exits.measure(exiting, [Prompt(text, "chat") for text in texts], 20)
    assert [(each.layers, each.is_trained) for each in results] == [(0, False), (1, False), (2, False), (1, True)]
    assert exiting.target.runner.model.taps == () and exiting.target.runner.cache is None
    right, count, model, head = torch.zeros(3), 0, heads.models["exit"].model, heads.models["exit"].lm_head
    for text in texts:
        prompt, ids = ids_of(run(exiting, prompt=text, chat=True, max_new_tokens=20))
        states = list(model(torch.tensor([[*prompt, *ids]]), output_hidden_states=True).hidden_states)
        states[:2] = [model.norm(each) for each in states[:2]]  # the last one has been through it
        guesses = torch.stack([head(each[0]).argmax(-1)[len(prompt) - 1 : -1] for each in states])
        assert guesses[-1].tolist() == ids
        right, count = right + (guesses == guesses[-1]).sum(1), count + len(ids)
    assert [each.agreement for each in results[:3]] == pytest.approx((right / count).tolist())
    assert results[2].agreement == 1 and 0 < results[3].agreement < 1
    assert results[1].predicted == pytest.approx((1 + results[1].agreement) / (0.6 + 1.1))
    stored = json.loads(exits.to_json(exiting, results))
    assert stored["precision"] == "fp32" and [exits.Exit(**each) for each in stored["exits"]] == results


def test_shapes_are_compared_at_the_costs_measured_and_at_those_assumed(branching, monkeypatch):
    """The tree of the second place is larger because its rows are cheap there; all write the same text."""
    steep = CostModel(0.1, {1: 1.0, 2: 1.3}, 200, 0.001)
    for method in ("none", "eagle", "eagle-chain"):
        monkeypatch.setitem(branching._costs, method, steep)
    found = shapes.compare(branching, [Prompt("the cat, the hat", "chat")], 24, slope=0.002)
    places = [(method, where) for where in (shapes.HERE, shapes.ASSUMED) for method in (shapes.CHAIN, shapes.TREE)]
    assert [(each.method, each.where) for each in found] == places
    *_, chain, tree = found
    assert tree.drafted > chain.drafted and tree.tau >= chain.tau >= 1.0
    cost = chain.steps * 0.1 + 1 + 0.002 * chain.drafted
    assert chain.predicted == pytest.approx(chain.tau / cost) and chain.rate > 0
    assert len(chain.by_rank) == 1 < len(tree.by_rank) and tree.costs.v[2] == 1.002
    many = replace(tree, by_rank=((40, 100), (10, 50), (1, 19)))
    assert many.chances == [0.4, 0.2]
    parents, speedup = tree.static_tree(many.chances)
    assert len({*parents}) < len(parents) and speedup > tree.static_tree([0.4])[1] > 1
