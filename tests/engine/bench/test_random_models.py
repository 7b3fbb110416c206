"""Random models: sizes as published, bytes as read, parts kept and resumed, tables that say so."""

import json
import re

import pytest
import torch
from paths import ROOT
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from engine.bench.expectations import (
    H200_COPY,
    LEAST_EFFICIENCY,
    LEAST_SPEEDUP,
    MOST_DRAFT_C,
    MOST_HEAD_C,
    MOST_V5,
    SMALL_MODEL_RATE,
    expected_rate,
)
from engine.bench.random_models import (
    SHAPES,
    bytes_a_step,
    environment,
    markdown,
    median_run,
    random_head,
    random_model,
)
from engine.bench.sample import Sample
from engine.cli.main import app


def arguments(out, *more) -> list[str]:
    sizes = ["--shapes", "tiny", "--contexts", "16", "--tokens", "8", "--repeats", "1"]
    return ["random-models", "--out", str(out), *sizes, "--device", "cpu", *more]


@pytest.fixture(autouse=True)
def small_copies(monkeypatch):
    monkeypatch.setattr("engine.bench.random_models.COPY_MEGABYTES", 4)


@pytest.mark.parametrize(
    ("name", "billions"), [("135M", 0.135), ("0.6B", 0.596), ("1.5B", 1.54), ("8B", 8.19), ("32B", 32.8)]
)
def test_shapes_are_as_large_as_their_names(name, billions):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(SHAPES[name].config)
    assert model.num_parameters() / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_step_reads_every_weight_once_and_the_keys_and_values():
    runner = random_model(SHAPES["tiny"], torch.bfloat16, "cpu")
    model = runner.model
    linears = [getattr(layer, n).weight for layer in model.layers for n in ("qkv", "out", "gate_up", "down")]
    weights = sum(w.numel() for w in [*linears, model.head.weight])
    runner.reset(32)
    cached = (runner.cache.keys.numel() + runner.cache.values.numel()) / runner.cache.slots
    assert bytes_a_step(runner, 10) == 2 * (weights + 10 * cached)
    assert bytes_a_step(runner, 0) == 2 * weights


def test_random_models_stay_finite_through_all_their_layers():
    runner = random_model(SHAPES["tiny"], torch.float32, "cpu")
    head = random_head(runner)
    runner.reset(64)
    runner.prefill(list(range(40)))
    logits = runner.forward(torch.tensor([5]))
    assert logits.isfinite().all() and 0.01 < float(logits.std()) < 10
    assert head.model.reads == (1, 2) or len(head.model.reads) >= 2
    assert runner.tapped.isfinite().all()


def parts(out) -> dict[tuple, dict]:
    return {tuple(row["key"]): row["result"] for row in map(json.loads, out.read_text().splitlines()[1:])}


def test_everything_is_measured_kept_and_not_measured_again(tmp_path):
    out = tmp_path / "shapes.jsonl"
    first = CliRunner().invoke(app, arguments(out, "--pair", ""))
    assert first.exit_code == 0, first.output
    part = parts(out)["tiny", 16, "ours"]
    assert part["tokens_per_second"] > 0 and 0 < part["share_of_bandwidth"] < 1
    assert part["v"]["1"] == 1.0 and set(part["drafts"]) == {"lm", "eagle"}
    for draft in part["drafts"].values():
        assert draft["c"] > 0 and [row["alpha"] for row in draft["synthetic"]] == [0.5, 0.7, 0.8, 0.9]
        assert all(r["efficiency"] == pytest.approx(r["speedup"] / r["predicted"]) for r in draft["synthetic"])
    assert all(mode["tokens_per_second"] > 0 for mode in parts(out)["tiny", 16, "transformers"].values())
    table = (tmp_path / "shapes.md").read_text()
    assert "set by hand" in table and "| tiny | 16 | lm |" in table and table in first.output
    before = out.read_bytes()
    again = CliRunner().invoke(app, arguments(out, "--pair", ""))
    assert again.exit_code == 0 and out.read_bytes() == before and "plain decoding" not in again.stderr


def test_a_part_without_transformers_gets_only_them_when_it_is_resumed(tmp_path):
    out = tmp_path / "shapes.jsonl"
    CliRunner().invoke(app, arguments(out, "--pair", "", "--no-transformers"))
    before = parts(out)
    assert before.keys() == {("tiny", 16, "ours")}
    CliRunner().invoke(app, arguments(out, "--pair", ""))
    after = parts(out)
    assert after.pop(("tiny", 16, "transformers")) and after == before


@pytest.mark.slow
def test_the_real_pair_is_measured_as_well(tmp_path, monkeypatch, tiny_pair):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "shapes.jsonl"
    prompts.write_text('{"prompt": "say a thing", "category": "chat"}\n')
    more = ("--shapes", "", "--pair", tiny_pair, "--prompts", str(prompts), "--limit", "1")
    result = CliRunner().invoke(app, arguments(out, *more))
    assert result.exit_code == 0, result.output
    table = parts(out)["pair", tiny_pair]["table"]
    for method in ("none", "none-untraced", "ngram", "lm", "hf-assisted"):
        assert f"| {method}" in table, method
    assert table in (tmp_path / "shapes.md").read_text()


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--shapes", "9B"], "no shape"), (["--contexts", "1"], "contexts"), (["--contexts", ""], "contexts")],
)
def test_nonsense_is_refused(tmp_path, more, said):
    found = CliRunner().invoke(app, arguments(tmp_path / "x.jsonl", *more))
    assert found.exit_code == 1 and said in found.stderr and not (tmp_path / "x.jsonl").exists()


def test_a_mode_that_could_not_run_says_why_in_the_table():
    ours = {"shape": "8B", "context": 256, "tokens_per_second": 100.0, "share_of_bandwidth": 0.7,
            "v": {"1": 1.0, "2": 1.01}, "drafts": {}, "peak_memory": 17_000_000_000}  # fmt: skip
    baseline = {"eager": {"tokens_per_second": 20.0}, "compiled": {"problem": "out of memory"}}
    header = environment("cpu", "fp32") | {"time": "now"}
    text = markdown(header, {("8B", 256, "ours"): ours, ("8B", 256, "transformers"): baseline})
    row = next(line for line in text.splitlines() if "| 8B" in line)
    assert row == "| 8B | 256 | 100.0 | 70% | 20.0 | 5.00 | out of memory | – | 17.0 GB |"


def gpu_part(**changed) -> dict:
    """8B at 256 as expected on an H200."""
    drafts = {
        method: {"c": c, "synthetic": [
            {"alpha": 0.8, "gamma": 5, "tau": 3.7, "tokens_per_second": 520.0, "speedup": 2.6, "predicted": 2.7,
             "efficiency": 0.96}]}
        for method, c in (("lm", 0.09), ("eagle", 0.04))
    }  # fmt: skip
    part = {"shape": "8B", "context": 256, "tokens_per_second": 200.0, "share_of_bandwidth": 0.72, "v": {"5": 1.02},
            "copy_bandwidth": 4.2e12, "bytes_a_step": 15.2e9, "drafts": drafts, "peak_memory": None}  # fmt: skip
    return part | changed


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, "None was missed."),
        ({"tokens_per_second": 190.0}, "Missed: 8B at 256: tokens/s."),
        ({"v": {"5": 1.2}, "copy_bandwidth": 3.9e12}, "Missed: 8B at 256: copy, TB/s; 8B at 256: v(5)."),
    ],
)
def test_a_gpu_table_ends_with_the_expectations_and_the_missed_ones(changed, missed):
    header = environment("cpu", "bf16") | {"time": "now", "device": "NVIDIA H200"}
    header["versions"]["cuda"] = "13.0"
    text = markdown(header, {("8B", 256, "ours"): gpu_part(**changed)})
    assert text.endswith(f"\n\n{missed}\n")
    assert "| 8B at 256, eagle: c | 0.040 | at most 0.050 | met |" in text
    on_cpu = markdown(header | {"device": "cpu (x86_64, 2 threads)"}, {("8B", 256, "ours"): gpu_part(**changed)})
    assert "expectations" not in on_cpu


def test_the_expected_rates_are_those_of_the_readme():
    """70 % of 4.2 TB/s, as its table has it; its tokens/s are rounded."""
    text = (ROOT / "assets/data/benchmarks/README.md").read_text()
    for name in ("1.5B", "8B", "32B"):
        (row,) = re.findall(rf"^\| {name} \| ([\d.]+) GB .* (\d+) \|$", text, re.M)
        assert expected_rate(4.2e12, float(row[0]) * 1e9) == pytest.approx(float(row[1]), rel=0.01)
    bounds = (H200_COPY / 1e12, MOST_V5, MOST_DRAFT_C, MOST_HEAD_C, LEAST_SPEEDUP, LEAST_EFFICIENCY)
    table = text[text.index("| figure | missed if |") :]
    assert all(f"{bound:g}" in table for bound in bounds) and f"{SMALL_MODEL_RATE:,}" in table


def test_the_median_run_counts():
    samples = [Sample(10, seconds, seconds, 10, 0.1, 10) for seconds in (1.0, 5.0, 2.0)]
    assert median_run(samples).seconds == 2.0
