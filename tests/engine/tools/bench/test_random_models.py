"""Random models: sizes as published, bytes as read, parts kept and resumed, tables that say so."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from engine.tools.bench import random_models
from engine.tools.bench.random_models import SHAPES, bytes_a_step, median_run
from engine.tools.bench.sample import Sample
from engine.tools.cli.main import app


def arguments(out, *more) -> list[str]:
    sizes = ["--shapes", "tiny", "--contexts", "16", "--tokens", "8", "--repeats", "1"]
    return ["random-models", "--out", str(out), *sizes, "--device", "cpu", *more]


@pytest.fixture(autouse=True)
def small_copies(monkeypatch):
    monkeypatch.setattr("engine.tools.bench.random_models.COPY_MEGABYTES", 4)


def test_shapes_are_as_large_as_their_names():
    for name, billions in {"135M": 0.135, "0.6B": 0.596, "1.5B": 1.54, "8B": 8.19, "32B": 32.8}.items():
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(SHAPES[name].config)
        assert model.num_parameters() / 1e9 == pytest.approx(billions, rel=0.01), name


def test_a_step_reads_every_weight_once_and_the_keys_and_values():
    runner = random_models.random_model(SHAPES["tiny"], torch.bfloat16, "cpu")
    model = runner.model
    linears = [getattr(layer, n).weight for layer in model.layers for n in ("qkv", "out", "gate_up", "down")]
    weights = sum(w.numel() for w in [*linears, model.head.weight])
    runner.reset(32)
    cached = (runner.cache.keys.numel() + runner.cache.values.numel()) / runner.cache.slots
    assert bytes_a_step(runner, 10) == 2 * (weights + 10 * cached)
    assert bytes_a_step(runner, 0) == 2 * weights


def test_random_models_stay_finite_through_all_their_layers():
    runner = random_models.random_model(SHAPES["tiny"], torch.float32, "cpu")
    head = random_models.random_head(runner)
    runner.reset(64)
    runner.prefill(list(range(40)))
    logits = runner.forward(torch.tensor([5]))
    assert logits.isfinite().all() and 0.01 < float(logits.std()) < 10 and len(head.model.reads) >= 2
    assert runner.tapped.isfinite().all()


def parts(out) -> dict[tuple, dict]:
    return {tuple(row["key"]): row["result"] for row in map(json.loads, out.read_text().splitlines()[1:])}


@pytest.mark.slow
def test_everything_is_measured_kept_and_not_measured_again(tmp_path):
    out = tmp_path / "shapes.jsonl"
    CliRunner().invoke(app, arguments(out, "--pair", "", "--no-transformers"))
    ours = parts(out)
    assert ours.keys() == {("tiny", 16, "ours")}
    first = CliRunner().invoke(app, arguments(out, "--pair", ""))
    assert first.exit_code == 0, first.output
    assert parts(out) == ours | {key: parts(out)[key] for key in [("tiny", 16, "transformers")]}, "only what lacked"
    part = parts(out)["tiny", 16, "ours"]
    assert part["tokens_per_second"] > 0 and 0 < part["share_of_bandwidth"] < 1
    assert part["v"]["1"] == 1.0 and set(part["drafts"]) == {"lm", "eagle-chain"}
    for draft in part["drafts"].values():
        assert draft["c"] > 0 and [row["alpha"] for row in draft["synthetic"]] == [0.5, 0.7, 0.8, 0.9]
        assert all(r["efficiency"] == pytest.approx(r["speedup"] / r["predicted"]) for r in draft["synthetic"])
    assert all(mode["tokens_per_second"] > 0 for mode in parts(out)["tiny", 16, "transformers"].values())
    table = (tmp_path / "shapes.md").read_text()
    assert "set by hand" in table and "| tiny | 16 | lm |" in table and table in first.output
    before = out.read_bytes()
    again = CliRunner().invoke(app, arguments(out, "--pair", ""))
    assert again.exit_code == 0 and out.read_bytes() == before and "plain decoding" not in again.stderr


def test_nonsense_is_refused(tmp_path):
    for *more, said in (("--shapes", "9B", "no shape"), ("--contexts", "1", "contexts")):
        found = CliRunner().invoke(app, arguments(tmp_path / "x.jsonl", *more))
        assert found.exit_code == 1 and said in found.stderr and not (tmp_path / "x.jsonl").exists()


def test_the_median_run_counts():
    samples = [Sample(10, seconds, seconds, 10, 0.1, 10) for seconds in (1.0, 5.0, 2.0)]
    assert median_run(samples).seconds == 2.0


@pytest.mark.parametrize("line", [
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build",
])  # fmt: skip
def test_the_drivers_version_is_read_of_both_kinds_of_module(tmp_path, line):
    (tmp_path / "version").write_text(line + "\nGCC version:  gcc version 12.3.0\n")
    assert random_models._driver(tmp_path / "version") == "535.104.05"
    assert random_models._driver(tmp_path / "none") is None
