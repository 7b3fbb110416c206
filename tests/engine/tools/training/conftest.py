"""Shares one tiny target, one journey through all stages and one set of samples among the tests of training."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_models import seeded
from tiny_pairs import END, VOCABULARY, model_folder
from training_project import CHAT, PROMPTS, RANK, RECIPE, SHAPE, WORDS, quiet, stage
from transformers import AutoTokenizer

from engine.models.loader import load_model
from engine.tools.training import dataset as sample_file
from engine.tools.training import generate, hidden_states
from engine.tools.training.batched_sampler import BatchedSampler
from engine.tools.training.distil import Data
from engine.tools.training.project import frequent
from engine.tools.training.students import new_lm, student_class
from engine.tools.training.teacher import Teacher


def use_small_samples(patch: pytest.MonkeyPatch, cache: Path) -> None:
    """Sets the cache folder, and the share of prompts held out: of a few dozen prompts a twenty-fifth may be none."""
    patch.setenv("SPECLENS_CACHE", str(cache))
    patch.setattr(sample_file, "HELD_OUT", 0.2)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def small_samples(cache, monkeypatch):
    use_small_samples(monkeypatch, cache)


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A target that writes ASCII and comes to an end, as an instruct model does."""
    root = tmp_path_factory.mktemp("training")
    model = model_folder(root / "target", template=CHAT)
    tokenizer = AutoTokenizer.from_pretrained(root / "target")
    said = [len(tokenizer.decode([i])) == 1 and 32 <= ord(tokenizer.decode([i])) < 127 for i in range(VOCABULARY)]
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 20.0  # the same in every state, so that words can have a bias
        model.model.norm.weight[0] = 3.0
        model.lm_head.weight[:, 0] = torch.where(torch.tensor(said), 0.0, -10.0)
        model.lm_head.weight[END, 0] = 0.5
    model.save_pretrained(root / "target")
    return root


@pytest.fixture(scope="session")
def target(root):
    return load_model(root / "target", "cpu", "fp32")


@pytest.fixture(scope="session")
def teacher(root):
    return Teacher.load(root / "target", "cpu")


@pytest.fixture(scope="session")
def journey(root, cache):
    """prompts → sample → distil → export, every kind; one of them goes on to evaluate."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_samples(patch, cache)
        return all_stages(root)


def all_stages(root):
    said = {"prompts": stage(root, "prompts", "--count", PROMPTS, "--slots", 16)}
    said["sample"] = stage(root, "sample", "--max-new-tokens", 12, "--slots", 7, "--count", 120)
    for kind in ("lm", "eagle", "block", "medusa", "exit"):
        asked = ("--taps", "1" if kind == "exit" else "0,1", *(("--bias", RANK) if kind == "block" else ()))
        said[kind] = stage(root, "distil", kind, *RECIPE, *asked)
        stage(root, "export", kind, "--out", root / kind)
    (root / "held.jsonl").write_text('{"id": "a", "kind": "x", "prompt": "the cat"}\n')
    asked = ("--prompts", root / "held.jsonl", "--max-new-tokens", 24, "--gamma", 3)
    said["evaluate"] = stage(root, "evaluate", "eagle", *asked, pair=f"{root / 'target'}+{root / 'eagle'}")
    return SimpleNamespace(said=said, work=root / "work", samples=root / "work" / "samples" / "samples.npz", root=root)


@pytest.fixture(scope="session")
def learning(target, teacher, tmp_path_factory):
    """Samples of the target with their features, and what makes students from them."""
    folder = tmp_path_factory.mktemp("learning")
    rows = generate.requests(target.tokenizer, [f"say {i}" for i in range(40)], 120, 0, 60)
    whole = generate.collect(BatchedSampler(target.runner, 16, 64), rows, 120, target.eos, 12, folder, quiet)
    found = hidden_states.compute(target.runner, whole, folder, (0, 1), "a target")
    words = frequent(whole, WORDS)

    def student(kind, seed=0):
        if kind == "lm":
            return new_lm(teacher, words, SHAPE, seed)
        with seeded(seed):
            return student_class(kind).new(teacher, words, torch.ones(2), **{"rank": RANK} if kind == "block" else {})

    def data(kind):
        return Data(whole, found, {"eagle": (0, 1), "block": (0, 1), "exit": (1,)}.get(kind, ()), "cpu")

    return SimpleNamespace(samples=whole, features=found, words=words, student=student, data=data, teacher=teacher)


@pytest.fixture
def copied(journey, root, tmp_path):
    """A copy of the journey's work folder, for tests that damage it."""
    shutil.copytree(journey.work, tmp_path / "work")
    return tmp_path / "work"
