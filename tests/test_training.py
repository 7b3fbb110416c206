"""Every stage of making a draft, on a tiny target, in seconds: resumable, deterministic, and plain about bad files."""

import json
import re

import numpy as np
import pytest
import torch
from pairs import VOCABULARY, model_folder
from tiny import one_thread  # noqa: F401
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from engine.errors import BadInput
from engine.training import samples as sample_file
from engine.training.cli import app
from engine.training.distil import Recipe
from engine.training.export import vocabulary_map
from engine.training.samples import Samples
from engine.training.slots import Row, Slots

CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    root = tmp_path_factory.mktemp("training")
    model_folder(root / "target", template=CHAT)
    return root


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert (result.exit_code != 0) == fails, result.output
    return result.output


def stage(shop, name, *arguments, work="work", **kwargs):
    return run(name, *arguments, "--pair", shop / "target", "--work", shop / work, "--device", "cpu", **kwargs)


@pytest.fixture(scope="module")
def sampled(shop):
    (shop / "asked.jsonl").write_text("\n".join(json.dumps({"prompt": f"say {i} twice"}) for i in range(30)))
    import os

    os.environ["SPECLENS_CACHE"] = str(shop / "cache")
    stage(shop, "sample", "--prompts", shop / "asked.jsonl", "--count", 60, "--max-new-tokens", 12, "--slots", 7)
    return shop / "work" / "samples" / "samples.npz"


def made_up(rows=40, seed=0) -> Samples:
    rng = np.random.default_rng(seed)
    prompt, reply = rng.integers(2, 9, rows), rng.integers(1, 12, rows)
    tokens = rng.integers(0, VOCABULARY, int((prompt + reply).sum()))
    kinds = (tokens.astype(np.uint16), prompt.astype(np.uint16), reply.astype(np.uint16))
    return Samples(*kinds, np.ones(rows, dtype=np.float32))
