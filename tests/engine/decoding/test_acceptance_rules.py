"""The registry of acceptance rules: two functions and one entry make a rule that is used everywhere."""

import inspect
import json

import pytest
import toy_rule
from chi_squared import CAUGHT, FALSE_ALARM, markov_p_value

from engine.config import ACCEPTANCE, SamplingParams, load_object
from engine.decoding.loop import Rules
from engine.errors import BadInput
from engine.tools.bench.systems import check_names
from engine.tools.exactness.toy_models import ToyLM, generate, make_drafter, record_trace
from engine.trace.trace import from_json, to_json

TARGET = ToyLM.random(6, seed=0, spread=0.5)
DRAFT = TARGET.with_noise(1.0, seed=1)
SAMPLING = SamplingParams(0.9, top_p=0.95)


@pytest.mark.parametrize("method", ["lm", "without_replacement"])
def test_new_rule_decides_and_is_recorded(method, monkeypatch):
    toy_rule.register(monkeypatch)
    settings = {"sampling": SAMPLING, "acceptance": "toy", "seed": 3}
    trace = record_trace(TARGET, make_drafter(method, DRAFT), [0, 1], max_new_tokens=200, **settings)
    statuses = [token.status for round_ in trace.rounds for token in round_.tokens]
    assert {"accepted", "rejected", "resampled", "bonus"} <= {*statuses} and "rescued" not in statuses
    assert from_json(to_json(trace)).started.acceptance == "toy"


@pytest.mark.parametrize("method", ["lm", pytest.param("without_replacement", marks=pytest.mark.slow)])
def test_new_rule_keeps_the_law_which_a_wrong_one_does_not(method, monkeypatch):
    toy_rule.register(monkeypatch)
    settings = {"sampling": SAMPLING, "acceptance": "toy", "gamma": 3, "max_new_tokens": 700}
    tokens = generate(TARGET, make_drafter(method, DRAFT), [0, 1], **settings)
    assert markov_p_value(TARGET, tokens, SAMPLING) > FALSE_ALARM
    true_draw = toy_rule.draw
    monkeypatch.setattr(toy_rule, "draw", lambda p, u: true_draw(p, u**2))
    wrong = generate(TARGET, make_drafter(method, DRAFT), [0, 1], **settings)
    assert markov_p_value(TARGET, wrong, SAMPLING) < CAUGHT


def test_new_rule_has_a_name_in_measurements(monkeypatch):
    names = ["lm-toy"]
    with pytest.raises(BadInput, match="cannot be measured"):
        check_names(names, ("lm",), ("lm",))
    toy_rule.register(monkeypatch)
    assert check_names(names, ("lm",), ("lm",)) == ["none", "lm-toy"]
    others = " or ".join(f"-{name}" for name in ACCEPTANCE if name != "token")
    assert others.endswith("-toy")
    with pytest.raises(BadInput, match=f"also with {others}"):
        check_names(["lm-other"], ("lm",), ("lm",))


def test_replacing_a_function_that_no_rule_calls_is_noticed():
    path = "engine.sampling.rejection:verify_chains"
    with pytest.raises(AssertionError, match="verify_chains"):
        generate(TARGET, make_drafter("lm", DRAFT), [0, 1], rules=Rules(verdicts={path: print}))


@pytest.mark.parametrize("name", ACCEPTANCE)
def test_each_rule_takes_the_settings_that_it_names(name):
    rule = ACCEPTANCE[name]
    for path, first in (rule.chain, ["p", "q", "tokens"]), (rule.tree, ["p", "q", "tokens", "parents"]):
        arguments = [*inspect.signature(load_object(path)).parameters]
        assert arguments == [*first, "u", "u_closing", *(each.name for each in rule.settings)], json.dumps(arguments)
