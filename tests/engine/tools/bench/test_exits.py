"""What leaving the target early would bring: agreement counted by hand, and predictions from costs."""

import json

import pytest
import torch
from head_cases import load_unrounded
from tiny_pairs import ids_of, run

from engine.tools.bench import exits
from engine.tools.bench.prompts import Prompt
from engine.trace.costs import CostModel


@pytest.fixture(scope="module")
def exiting(heads):
    return load_unrounded(heads.pair("exit"), "exit")


@torch.inference_mode()
def test_each_layer_is_read_as_the_last_one_is(heads, exiting, monkeypatch):
    """Agreement is counted by hand from transformers' states, on the tokens that the target wrote."""
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
