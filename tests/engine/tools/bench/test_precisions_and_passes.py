"""How far rounded targets are from the whole one, and what single passes take: measured on a tiny pair."""

import json

import pytest
import torch
from tiny_pairs import model_folder

from engine.models.onnx.llama import ONNX_PRECISIONS
from engine.runtime.engine import load_engine
from engine.tools.bench import passes, precisions
from engine.tools.bench.prompts import Prompt
from engine.weights.checkpoint_dir import weights_hash
from engine.weights.rounding_distances import Distance, stored_distances

PROMPTS = [Prompt("the cat", "kind"), Prompt("a hat, the cat, a hat", "kind")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("precisions") / "target"
    model_folder(folder, intermediate_size=96, max_position_embeddings=512)
    return folder


@pytest.mark.slow
def test_the_distance_is_that_of_the_two_distributions(folder, monkeypatch):
    """It is measured with rounded models, then with one that is the whole model, which is at no distance."""
    found = precisions.measure(str(folder), PROMPTS, 8)
    assert [*found] == ["int8", "int4"] and all(each.tokens == 16 for each in found.values())
    assert 0 < found["int8"].kl < found["int4"].kl and 0 < found["int4"].equal <= found["int8"].equal <= 1
    real = load_engine
    monkeypatch.setattr(precisions, "load_engine", lambda pair, device, precision: real(pair, device, "fp32"))
    same = precisions.measure(str(folder), PROMPTS[:1], 8)["int8"]
    assert same == Distance(0.0, 1.0, 8)


def test_a_distance_is_kept_for_the_page(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path))
    target, found = weights_hash(folder), {"int8": Distance(0.003, 0.98, 692)}
    assert stored_distances(target) == {}
    precisions.store_distances(target, found)
    assert stored_distances(target) == found
    for damaged in ("{", "[1]", json.dumps({"int8": {"kl": 1}}), json.dumps({"int8": 3})):
        (tmp_path / "precisions" / f"{target}.json").write_text(damaged)
        assert stored_distances(target) == {}


def test_every_pass_is_timed_in_every_precision(folder):
    seen = []
    seconds = passes.measure(str(folder), lambda share, message: seen.append(share))
    assert [*seconds] == [*ONNX_PRECISIONS] and seen[-1] == 1
    assert all([*found] == [*map(str, passes.WIDTHS), "prefill"] for found in seconds.values())
    assert all(time > 0 for found in seconds.values() for time in found.values())
    assert passes.markdown(seconds).splitlines()[2].startswith("| fp32 | ")


def test_a_pass_is_timed_after_the_same_context_each_time(folder, monkeypatch):
    """Scored tokens are taken back, or the passes would grow longer."""
    runner = load_engine(str(folder), "cpu", "int8").target.runner
    steps = passes._ours(runner, [i % 96 for i in range(272)])
    rows = [steps["4"]() for _ in range(3)]
    assert runner.length == 260 and torch.equal(rows[0], rows[2])
    steps["prefill"]()
    assert runner.length == passes.PREFILL
    runner.release()
