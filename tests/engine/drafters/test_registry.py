"""The registry of drafting methods: one file and one entry make a method, and its settings, appear everywhere."""

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
from paths import ROOT

from engine.config import METHODS, SamplingParams
from engine.drafters import drafter_class
from engine.drafters.base import Drafter
from engine.drafters.context_index import ContextIndex
from engine.tools.exactness.toy_models import ToyLM, ToyRunner, toy_decoder


@pytest.mark.slow
def test_a_new_method_runs_and_is_on_the_command_line_and_the_page(tiny_pair, tmp_path):
    """A process of its own registers it before anything reads the registry."""
    command = [sys.executable, ROOT / "tests/helpers/echo_method.py", tiny_pair, tmp_path]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:] + result.stdout[-3000:]
    echo = json.loads(result.stdout.splitlines()[-1])
    assert echo["drafted"] > 0 and echo["lossless"]
    assert echo["pairs"] and "echo" in echo["help"] and echo["sweep"] and {"none", "echo"} <= set(echo["bench"])
    assert echo["form"] == "echo" and echo["label"] == "echo: repeats the last token"
    assert echo["longest"] == echo["link"] == 2 and echo["trace"] == {"echoes": 2} and echo["facts"] == "Echoes 2"
    hint, words = "How often the last token comes again.", " ".join(echo["help"].split())
    assert f"--echoes <int> Echo: {hint} [default: 3]" in words and echo["slider"] == ["Echoes", hint, 3, 1, 8]
    assert echo["api"] == "echoes" and echo["table"] == [f"| `echoes` | 3 | Echo: {hint} |"]
    controls = {"method", "sweep-methods", "theory-method", "lossless-method", "compare-method-1"}
    assert controls <= set(echo["controls"])
    described = [note for note in echo["recipes"] if note != "Not described yet for this method."]
    assert len(described) < len(echo["recipes"]), "an engine of which nobody wrote that it takes nothing else"
    assert all(note.startswith("Not supported: ") for note in described)


@pytest.mark.parametrize("name", METHODS)
def test_every_line_of_the_registry_names_a_drafter(name):
    drafter = drafter_class(name)
    assert issubclass(drafter, Drafter) and drafter.name == name
    assert METHODS[name].title and METHODS[name].description
    assert [*inspect.signature(drafter.start).parameters] == ["self", "prompt", "setup", *METHODS[name].defaults]


PROMPT = [0, 1, 2, 5, 0, 1, 3, 0, 1, 4, 4, 0, 1]
TARGET = ToyLM.random(6, seed=0, spread=0.8)
MADE = {
    **dict.fromkeys(("ngram", "lookahead"), lambda kind: kind()),
    "corpus": lambda kind: kind(ContextIndex(np.array(PROMPT * 3))),
    "lm": lambda kind: kind(ToyRunner(TARGET.with_noise(0.8, seed=1))),
}


@pytest.mark.parametrize("name", ["ngram", "lookahead", "corpus", "lm"])
def test_greedy_output_is_the_targets_own_and_drafts_are_accepted(name):
    """Others are tested on models: models/test_heads.py, test_quantised.py, exactness/test_translated_drafts.py."""
    run = toy_decoder(TARGET, MADE[name](drafter_class(name)), PROMPT, SamplingParams(), 3, max_new_tokens=40)
    statuses = {token.status for each in run.rounds() for token in each.tokens}
    assert run.text.ids[len(PROMPT) :] == [int(TARGET.logits(run.text.ids[:i]).argmax()) for i in range(13, 53)]
    assert "accepted" in statuses
