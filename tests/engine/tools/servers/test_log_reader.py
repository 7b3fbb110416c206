"""Logs, /metrics and saved answers are read in every form, and rows of unlike draft lengths apart."""

import gc
import re
from math import isfinite
from pathlib import Path
from time import process_time

import pytest
from engine_logs import CASES, text_of

from engine.tools.servers.log_forms import FORMS
from engine.tools.servers.log_reader import LONGEST, read_metrics, report

RECORDED = Path(__file__).with_name("recorded")


def near(value: float | None):
    return value if value is None else pytest.approx(value, abs=0.006)


@pytest.mark.parametrize("name", CASES)
def test_a_text_is_read_as_it_is_meant(name):
    wanted, made = CASES[name], report(text_of(name))
    found = [(r.engine, r.form, r.rows, r.gamma) for r in made.readings]
    assert found == [(w["engine"], w["form"], w["rows"], w["gamma"]) for w in wanted["readings"]]
    for reading, want in zip(made.readings, wanted["readings"], strict=True):
        assert (reading.tau, reading.per_drafted) == (near(want["tau"]), near(want["perDrafted"]))
        assert reading.alphas == [near(alpha) for alpha in want["alphas"]]
    assert len(made.unused) == len(wanted["unused"])
    for sentence, words in zip(made.unused, wanted["unused"], strict=True):
        assert words in sentence and re.fullmatch(r"[^\n]+\.", sentence)


def test_every_form_has_a_case():
    read_in = {r["form"].split(", draft-")[0].split(", ngram-")[0] for case in CASES.values() for r in case["readings"]}
    assert {form.name for form in FORMS} == read_in


def test_other_lines_around_a_text_change_nothing():
    for name in CASES:
        text = text_of(name)
        assert report(f"some other line\n{text}\nand the next").readings == report(text).readings, name


def test_metrics_and_answers_of_vllm_say_the_same():
    (metrics,) = report((RECORDED / "vllm_0.32_metrics.txt").read_text()).readings
    assert metrics.form.startswith("counters") and metrics.gamma == 3
    assert sum(metrics.reached) == pytest.approx(metrics.accepted / metrics.rounds)
    (answer,) = report((RECORDED / "vllm_0.32_eagle_chat.txt").read_text()).readings
    assert (answer.rounds, answer.drafted, answer.accepted, answer.gamma) == (17, 51, 22, 3)
    assert sum(answer.reached) == pytest.approx(22 / 17)


def test_only_the_end_of_a_long_text_is_read_and_soon():
    made = report("x " * 5_000_000 + "\n" + text_of("vLLM 0.32"))
    assert made.readings[0].gamma == 3 and f"{LONGEST:,}" in made.unused[0]


def test_nothing_of_a_text_is_kept():
    report('{"id": "a visitor’s own answer", "choices": [{}]}')
    gc.collect()
    assert not any(type(each) is dict and each.get("id") == "a visitor’s own answer" for each in gc.get_objects())


@pytest.mark.parametrize("words", [
    "Speculative metrics: efficiency: 1 speculative tokens: 1 accepted tokens: 1 ", "statistics a: #gen drafts = 1, ",
    "draft acceptance = 0.5 ( 1 accepted / 1 generated) acc per pos = (", "accept len: 2, accept rate: ",
    "Generated prediction: {\n", "type: llm.prediction.output\n", "Generated prediction: {\n  \"total_draft\n",
    "SpecDecoding metrics: Mean acceptance length: Accepted: Per-position acceptance rate: ",
])  # fmt: skip
def test_a_long_line_without_its_last_figure_is_read_soon(words):
    """A pattern with a wildcard for each figure took minutes."""
    text, start = text_of("vLLM 0.32"), process_time()
    assert report(words * 8000 + "\n" + text).readings == report(text).readings
    assert process_time() - start < 5


@pytest.mark.parametrize("text", [
    "accept len: 1..2", "accept len: 2, accept rate: 0." + "0" * 315 + "1", "vllm:spec_decode_num_drafts ee",
    "draft acceptance rate = 0.5 ( {n} accepted / {n} generated)", "'draft_n': {n}, 'draft_n_accepted': {n}",
    "Speculative metrics: efficiency: 1 speculative tokens: {n} accepted tokens: 1 draft tokens: {n}",
    "statistics a: #gen drafts = {n}, #gen tokens = {n}, #acc tokens = {n}",
    "[DT] AVERAGE : {n}\n[ADT] AVERAGE : {n}\n[AL] AVERAGE : {n}",
])  # fmt: skip
def test_what_looks_like_a_number_and_is_none_ends_no_reading(text):
    assert all(isfinite(reading.accepted) for reading in report(text.format(n="9" * 5000)).readings)


def test_metrics_of_a_server_are_summed_and_absent_where_it_has_none():
    assert read_metrics(text_of("vLLM counters of two models")) == {"rounds": 899, "drafted": 2497, "accepted": 609}
    assert read_metrics("nothing") is None
