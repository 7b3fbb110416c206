"""The one list of controls: to a validated request and back, refusals in words, this server's limits written in."""

import random

import pytest

from app.form import CONTROLS, NAMES, defaults, described, read, settings
from app.limits import Limits
from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput


def chosen(chance: random.Random) -> RunConfig:
    """Any request that the controls can express."""
    method = chance.choice(["auto", "ngram", "lm", "eagle", "none"])
    return RunConfig(
        prompt=chance.choice(["Hi", "  spaced \n", "<b>{{1+1}}</b> ${x}", "🌊" * 5]),
        pair=chance.choice(["smollm2-135m", "qwen3-4b"]),
        method=method,
        gamma=0 if method == "none" else chance.choice([AUTO, 0, 1, 16]),
        sampling=SamplingParams(
            chance.choice([0, 0.05, 2]), chance.choice([0, 7]), chance.choice([1, 0.05]), chance.choice([0, 0.3]),
            chance.choice([1, 1.15]),
        ),
        max_new_tokens=chance.randint(1, 512),
        seed=chance.choice([0, 3, 2**53 - 1]),
        chat=chance.random() < 0.5,
        system=chance.choice([None, "Be brief."]),
        thinking=chance.choice([None, True, False]),
        precision=chance.choice([AUTO, "fp32", "bf16"]),
    )  # fmt: skip


def test_read_is_the_inverse_of_settings():
    chance = random.Random(1)
    for _ in range(300):
        config = chosen(chance)
        values = read(config)
        assert tuple(values) == NAMES
        assert settings(values) == config


def test_the_defaults_are_a_run_and_read_back_as_themselves():
    assert read(settings(defaults())) == defaults()
    assert settings({}) == settings(defaults())


def test_browsers_send_floats_and_get_whole_numbers():
    config = settings({"prompt": "Hi", "auto": False, "gamma": 3.0, "seed": 5.0, "tokens": 20.0, "top_k": 4.0})
    assert (config.gamma, config.seed, config.max_new_tokens, config.sampling.top_k) == (3, 5, 20, 4)
    assert all(type(n) is int for n in (config.gamma, config.seed, config.max_new_tokens, config.sampling.top_k))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"seed": None}, "Seed is empty"),
        ({"tokens": None}, "Max tokens is empty"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"gamma": 2.5, "auto": False}, "gamma is 2.5"),
        ({"gamma": True, "auto": False}, "gamma is True"),
        ({"top_p": 0}, "top_p is 0"),
        ({"seed": 1e300}, "Seed is far too large"),
        ({"seed": 10**4000}, "Seed is far too large"),
        ({"seed": -1}, "seed is -1"),
        ({"method": "magic"}, "Method cannot be 'magic'; choose from auto, none, ngram"),
        ({"method": ["ngram"]}, "Method cannot be"),
        ({"precision": "int1"}, "Precision cannot be 'int1'"),
        ({"thinking": True}, "Thinking cannot be 'True'"),
        ({"pair": 7}, "Models cannot be '7'"),
        ({"auto": "yes"}, "auto must be on or off"),
        ({"prompt": {"a": 1}}, "Prompt must be text"),
        ({"prompt": "  "}, "prompt is empty"),
        ({"prompt": None}, "prompt is empty"),
        ({"system": "\ud800"}, "surrogate"),
        ({"temprature": 1}, "no control 'temprature'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(values, words):
    with pytest.raises(BadInput, match=words.replace("(", r"\(")):
        settings({"prompt": "Hi"} | values)


def test_limits_are_written_into_the_controls():
    limits = Limits(new_tokens=40, prompt_tokens=123, pairs=("b", "a"))
    found = described(limits)
    assert (found["tokens"].default, found["tokens"].high) == (40, 40) and "40" in found["tokens"].hint
    assert "123 tokens" in found["prompt"].hint
    assert defaults(limits)["pair"] == "b" and defaults()["tokens"] == 128


def test_every_control_says_what_it_is_and_starts_within_its_range():
    assert len(set(NAMES)) == len(CONTROLS) == 16
    for control in described(Limits()).values():
        assert control.label and control.hint.endswith("."), control.name
        if control.kind in ("slider", "number"):
            assert control.low <= control.default <= control.high and control.step, control.name
        if control.choices:
            assert control.default in control.choices, control.name
