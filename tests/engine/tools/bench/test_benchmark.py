"""The benchmark: its arithmetic on numbers made by hand, its loop and file, and a comparison on tiny checkpoints."""

import json
from dataclasses import replace

import numpy as np
import pytest
from paths import ROOT
from tiny_pairs import model_folder
from unlike_tokenizers import CHAT, byte_level, sentence_piece

from engine.config import Constraint
from engine.errors import BadInput, Unavailable
from engine.runtime.engine import load_engine
from engine.tools.bench import validity
from engine.tools.bench.comparison import Comparison, Settings
from engine.tools.bench.metrics import BenchResults, decoding, interval, markdown, ratio, rows
from engine.tools.bench.prompts import Prompt, read_prompts, spread, with_free
from engine.tools.bench.sample import Sample, fastest
from engine.trace.costs import CostModel
from engine.trace.metrics import first_difference

pytestmark = pytest.mark.xdist_group("benchmark")
UNICODE = '{"type": "string", "pattern": "^\\\\p{L}+$"}'  # which Python does not read


def sample(tokens: int, seconds: float, **more) -> Sample:
    defaults = {"passes": tokens, "ids": tuple(range(tokens))}
    return Sample(tokens, seconds + 1, seconds, tokens, 0.5, **(defaults | more))


def test_a_speedup_is_a_ratio_of_sums():
    for ours, plain, speedup in (
        ([(10, 1.0), (30, 9.0)], [(10, 4.0), (30, 16.0)], 2.0),  # the ratio of sums; the mean of ratios would be 2.89
        ([(20, 2.0)], [(10, 2.0)], 2.0),  # outputs of different length are compared by tokens a second
        ([(0, 0.0)], [(10, 1.0)], None),  # nothing to divide by
    ):
        ours, plain = (decoding([sample(*each) for each in some]) for some in (ours, plain))
        assert ratio(ours, plain) == (speedup and pytest.approx(speedup))


def test_the_interval_is_a_paired_bootstrap_that_repeats_itself():
    rng = np.random.default_rng(1)
    plain = np.stack([np.full(40, 100.0), rng.uniform(1, 5, 40)], 1)
    exactly_twice = plain * [1, 0.5]
    assert interval(exactly_twice, plain) == pytest.approx([2.0, 2.0]), "prompts are resampled for both together"
    noisy = exactly_twice * np.stack([np.ones(40), rng.uniform(0.8, 1.25, 40)], 1)
    low, high = interval(noisy, plain)
    assert low < ratio(noisy, plain) < high and 1.8 < low < high < 2.2
    assert interval(noisy, plain) == [low, high]
    assert interval(noisy[:1], plain[:1]) is None, "one prompt has no spread"


@pytest.mark.parametrize("few", [2, 3, 6, 11])
def test_the_interval_of_few_repeats_holds_the_truth_as_often_as_it_says(few):
    rng, held = np.random.default_rng(2), 0
    for _ in range(400):
        ours, plain = (np.stack([np.full(few, 48.0), rng.lognormal(0, 0.06, few)], 1) for _ in range(2))
        low, high = interval(ours, plain)  # the two systems are equally fast
        held += low <= 1 <= high
    assert held > 0.92 * 400, "three standard errors below 95 %"


def test_rows_by_hand():
    quickest = fastest([replace(sample(5, 2.0), ttft=0.1), replace(sample(5, 1.0), ttft=0.3)])
    assert (quickest.decode_seconds, quickest.seconds, quickest.ttft) == (1.0, 2.0, 0.1), "of each time the smallest"
    assert [first_difference((1, 2), other) for other in ((1, 2), (1, 3), (1,))] == [None, 1, 1]
    costs = CostModel(0.1, {1: 1.0, 5: 1.5}, 100, 0.05)
    drafted = {"rounds": ((5, 4, 4, ""), (1, 4, 4, "")), "by_depth": ((2, 2), (2, 3)), "passes": 2}
    results = BenchResults(
        ["a", "b"],
        {
            "none": [sample(6, 6.0, gaps=(9.0,) * 6), sample(6, 6.0, gaps=(1e-4,) * 6)],
            "lm": [sample(6, 3.0, **drafted), replace(sample(6, 6.0, **drafted), ids=(0, 1, 2, 9, 9, 9))],
            "lm-untraced": [sample(6, 2.4, **drafted), sample(6, 6.0, **drafted)],
            "hf": [sample(6, 9.0), sample(6, 9.0)],
        },
        {"none": replace(costs, c=0.0), "lm": costs},
    )
    by = {(r["method"], r["category"]): r for r in rows(results)}
    assert set(by) == {(m, c) for m in results.samples for c in ("all", "a", "b")}
    lm = by["lm", "all"]
    assert (lm["tokens"], lm["tau"], lm["acceptance"]) == (12, 3.0, 0.8)
    assert lm["wasted"] == pytest.approx(8 / 20)
    assert lm["speedup"] == pytest.approx(12 / 9) and by["lm", "a"]["speedup"] == pytest.approx(2.0)
    assert lm["predicted_speedup"] == pytest.approx(12 / (4 * (0.4 + 1.5)))
    assert lm["efficiency"] == pytest.approx(lm["speedup"] / lm["predicted_speedup"])
    assert lm["speedup_end_to_end"] == pytest.approx(14 / 11) and lm["over_hf_end_to_end"] == pytest.approx(20 / 11)
    assert lm["trace_cost"] == pytest.approx(9 / 8.4 - 1)
    assert (lm["differs"], lm["divergences"]) == (1, [{"prompt": 1, "position": 3, "gap": 1e-4}])
    assert by["none", "all"]["speedup"] == 1 and by["none", "all"]["predicted_speedup"] is None
    assert by["hf", "all"]["c"] is None and by["hf", "all"]["predicted_speedup"] is None
    table = markdown(rows(results))
    assert "| lm |" in table and "| 1.33× (0.02–" in table and "gaps up to 0.0001" in table and "lm +7.1%" in table


def test_prompts_and_turns_are_read_and_only_a_line_feed_ends_a_row(tmp_path):
    """A text may hold what Python's splitlines() takes for the end of a line."""
    rows = [Prompt(f"a{mark}b", "x") for mark in "\u2028\u2029\x85\x1c\x0c\x0b"]
    texts = [json.dumps({"prompt": row.text, "category": "x"}, ensure_ascii=False) for row in rows]
    texts += ["", '{"turns": ["b"], "category": "y"}', '{"prompt": "c"}']
    rows += [Prompt("b", "y"), Prompt("c", "other")]
    for end in ("\n", "\r\n"):
        (tmp_path / "p.jsonl").write_bytes(end.join([*texts, "{"]).encode())
        with pytest.raises(BadInput, match=f"Line {len(texts) + 1} "):
            read_prompts(tmp_path / "p.jsonl")
        (tmp_path / "p.jsonl").write_bytes((end.join(texts) + end).encode())
        assert read_prompts(tmp_path / "p.jsonl") == rows


def test_a_bad_line_is_named(tmp_path):
    file = tmp_path / "p.jsonl"
    rows = [f'{{"prompt": "a", {own}}}' for own in ('"system": 3', '"max_new_tokens": 0', '"max_new_tokens": true')]
    for line in ("{", "[]", "3", '{"turns": []}', '{"prompt": " "}', '{"prompt": 3}', *rows):
        file.write_text('{"prompt": "a"}\n' + line + "\n")
        with pytest.raises(BadInput, match="Line 2"):
            read_prompts(file)


def test_a_limit_takes_from_each_category_in_turn():
    prompts = [Prompt(f"{c}{i}", c) for c in "abc" for i in range(3)]
    assert [p.text for p in spread(prompts, 5)] == ["a0", "b0", "c0", "a1", "b1"]
    assert len(spread(prompts, 99)) == 9


PROMPTS = [Prompt("the cat sat on the mat the cat", "one"), Prompt("abcabcabc", "two"), Prompt("hello", "one")]


@pytest.mark.slow
def test_every_system_has_rows_with_real_numbers(engine):
    names = ("ngram", "lm", "lm-block", "hf", "hf-lookup", "hf-assisted")
    notes = []
    comparison = Comparison(
        engine, Settings(names, 24, gamma=3, repeats=2, untraced=True), PROMPTS, lambda _, note: notes.append(note)
    )
    comparison.run()
    turns = [note for note in notes if note.startswith("turn")]
    assert len(turns) == 6 and turns[1].startswith("turn 2 of 6: one: tokens/s none ") and "ngram " in turns[1]
    report = comparison.report()
    ours = {"none", "ngram", "lm", "lm-block"}
    methods = ours | {f"{method}-untraced" for method in ours} | {"hf", "hf-lookup", "hf-assisted"}
    assert {(r["method"], r["category"]) for r in report["rows"]} == {
        (m, c) for m in methods for c in ("all", "one", "two")
    }
    for row in report["rows"]:
        assert all(d["gap"] is not None and d["gap"] < 1e-3 for d in row["divergences"]), row["method"]
        assert row["tokens"] > 0 and 0 < row["decode_seconds"] <= row["seconds"] and row["tau"] >= 1
        assert row["category"] != "all" or row["ci95"][0] <= row["speedup"] <= row["ci95"][1]
    by = {r["method"]: r for r in report["rows"] if r["category"] == "all"}
    assert by["none"]["speedup"] == 1 and by["none"]["tau"] == 1 and by["none"]["acceptance"] is None
    assert by["lm"]["by_rule"] == {} and set(by["lm-block"]["by_rule"]) == {"token", "block"}
    assert by["lm"]["c"] > 0 and by["ngram"]["c"] == 0 and by["lm"]["trace_cost"] is not None
    assert by["hf-lookup"]["tau"] > 1 and by["hf-lookup"]["setting"] in ("10 tokens", "3 tokens")
    settings = [(v["method"], v["setting"]) for v in report["environment"]["variants"]]
    assert settings == [
        ("hf-lookup", "10 tokens"), ("hf-lookup", "3 tokens"), ("hf-assisted", "default"), ("hf-assisted", "3 tokens"),
    ]  # fmt: skip
    saved = json.loads(json.dumps(report, allow_nan=False))
    published = json.loads((ROOT / "assets/data/benchmarks/cpu.json").read_text())
    assert saved.keys() == published.keys() and saved["environment"].keys() == published["environment"].keys()
    for kind in ("rows", "samples"):
        assert saved[kind][0].keys() >= published[kind][0].keys() - {"busy"}, "which not every machine tells"
    assert saved["environment"]["precision"] == "fp32" and saved["environment"]["prompts"]["run"] == 3


def test_answers_are_checked_against_their_schema_by_another_package(engine):
    schemas = [Constraint("json_schema", text, True) for text in ('{"enum": ["ab", "cd"]}', '{"enum": [12, 345]}')]
    prompts = with_free([Prompt(f"say {i}", "x", schema) for i, schema in enumerate(schemas)])
    assert [(p.category, p.constraint) for p in prompts] == [
        pair for schema in schemas for pair in (("constrained", schema), ("free", None))
    ]  # fmt: skip
    comparison = Comparison(engine, Settings(("none", "lm"), max_new_tokens=12), prompts)
    comparison.run()
    report = comparison.report()
    assert {row["category"] for row in report["rows"]} == {"all", "constrained", "free"}
    all_fit = {"answers": 2, "ended": 2, "valid": 2, "unchecked": 0}
    assert report["validity"] == {name: all_fit for name in ("none", "lm")}
    columns, target = comparison.results().samples, engine.target
    swapped = {"none": [columns["none"][i] for i in (2, 1, 0, 3)]}  # each answer beside the other's schema
    assert validity.check(swapped, prompts, target.tokenizer, target.eos)["none"] == validity.Validity(2, 2, 0, 0)
    cut = {"lm": [replace(sample, ids=sample.ids[:-1]) for sample in columns["lm"]]}
    assert validity.check(cut, prompts, target.tokenizer, target.eos)["lm"] == validity.Validity(2, 0, 0, 0)
    assert "| lm | 2 | 2 | 2 | 0 |" in validity.markdown(report["validity"])
    assert not validity.can_check([Prompt("say", "x")])
    foreign = [replace(p, constraint=p.constraint and Constraint("json_schema", UNICODE)) for p in prompts]
    checked = validity.check(columns, foreign, target.tokenizer, target.eos)
    assert checked["none"] == validity.Validity(2, 2, 0, 1), "a number is no string, whatever the pattern"


@pytest.mark.parametrize("schema", [UNICODE, '{"type": "word"}', '{"$ref": "#/$defs/none"}'])
def test_a_schema_that_jsonschema_cannot_use_leaves_answers_unchecked(schema):
    assert validity.fits('"ab"', schema) is None and validity.fits('"ab', schema) is False


def test_an_answer_that_is_too_deep_is_unchecked():
    assert validity.fits("[" * 100_000 + "]" * 100_000, "{}") is None


def test_only_prompts_with_a_schema_come_twice():
    free, held = Prompt("say", "x"), Prompt("say", "x", Constraint("json_schema", "{}"))
    assert [(p.category, p.constraint) for p in with_free([free, held])] == [
        ("free", None), ("constrained", held.constraint), ("free", None),
    ]  # fmt: skip
    with pytest.raises(BadInput, match="No prompt has a JSON schema"):
        with_free([free])


def test_interrupted_comparison_keeps_prompts_that_all_finished(engine):
    def stop_at_five(fraction, note):
        if note.startswith("turn 5"):  # the first of two repeats of the third prompt
            raise KeyboardInterrupt

    comparison = Comparison(engine, Settings(("ngram",), 8, repeats=2), PROMPTS, stop_at_five)
    comparison.run()
    report = comparison.report()
    assert comparison.interrupted and report["environment"]["interrupted"]
    assert report["environment"]["prompts"]["run"] == 2
    assert next(r for r in report["rows"] if r["category"] == "all")["prompts"] == 2


def test_sampled_outputs_are_not_compared_token_by_token(engine):
    comparison = Comparison(engine, Settings(("lm", "hf-assisted"), 6, temperature=0.8), PROMPTS[:1])
    comparison.run()
    assert all(r["differs"] is None and r["speedup"] > 0 for r in comparison.report()["rows"])


@pytest.mark.slow
def test_transformers_assistant_is_given_both_tokenizers_where_they_differ(tmp_path):
    for name, tokenizer in (("target", byte_level()), ("draft", sentence_piece())):
        model_folder(tmp_path / name, tokenizer=tokenizer, template=CHAT, vocab_size=len(tokenizer))
    unlike = load_engine(f"{tmp_path / 'target'}+{tmp_path / 'draft'}", "cpu")
    comparison = Comparison(unlike, Settings(("lm", "hf-assisted"), 6), PROMPTS[:2])
    comparison.run()
    assert all(r["differs"] == 0 for r in comparison.report()["rows"])


def test_impossible_system_or_prompt_is_refused_before_any_run(engine):
    for name, prompts, words in (
        ("nonsense", PROMPTS, "cannot be measured"), ("none:", PROMPTS, "cannot be measured"),
        ("ngram", [Prompt("x" * 600, "long")], "attends to"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=words):
            Comparison(engine, Settings((name,), 8), prompts)


def test_a_method_in_another_precision_and_auto_stand_beside_the_others(engine):
    """bf16, because 32 does not divide the tiny pair's widths; a row has the name that the command line gave it."""
    comparison = Comparison(engine, Settings(("auto", "none:bf16"), 12), PROMPTS[:2])
    comparison.run()
    rows = {r["method"]: r for r in comparison.report()["rows"] if r["category"] == "all"}
    assert list(rows) == ["none", "auto", "none:bf16"]
    assert {s.name: s.engine.precision for s in comparison.systems} == {
        "none": "fp32", "auto": "fp32", "none:bf16": "bf16"
    }  # fmt: skip
    steps = [comparison.results().costs[name].step for name in ("none", "none:bf16")]
    assert rows["none:bf16"]["predicted_speedup"] == pytest.approx(steps[0] / steps[1])
    assert rows["auto"]["differs"] == 0 and {*rows["auto"]["drafters"]} <= {"ngram", "lm"}


def test_llama_cpp_says_what_it_lacks(engine, monkeypatch, tmp_path):
    with pytest.raises(BadInput, match=r"llama-cpp reads GGUF files, but .* has none; leave it out"):
        Comparison(engine, Settings(("llama-cpp",), 8), PROMPTS[:1])
    monkeypatch.setattr(type(engine), "gguf", tmp_path / "model.gguf")
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path))
    with pytest.raises(Unavailable, match=r"needs Node\.js and a package .*; run `npm install .*node-llama-cpp@3"):
        Comparison(engine, Settings(("llama-cpp",), 8), PROMPTS[:1])
    with pytest.raises(BadInput, match="compared at temperature 0 without a penalty; set --temperature 0"):
        Comparison(engine, Settings(("llama-cpp",), 8, temperature=1.0), PROMPTS[:1])
