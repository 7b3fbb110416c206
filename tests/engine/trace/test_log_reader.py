"""Lines of a log, /metrics and saved answers are read in every form, and lines of unlike draft lengths apart."""

from pathlib import Path

import pytest
from engine_logs import LOGS

from engine.trace.log_reader import read, read_metrics

RECORDED = Path(__file__).parents[1] / "servers" / "recorded"


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_read_as_it_is_meant(name):
    log = LOGS[name]
    (reading,) = read(f"some other line\n{log.text}\nand the next")
    assert (reading.engine, reading.tau) == (log.engine, pytest.approx(log.tau, abs=0.006))
    assert reading.per_drafted == (log.per_drafted and pytest.approx(log.per_drafted, abs=0.002))
    assert reading.gamma == log.gamma or reading.drafted / reading.rounds == pytest.approx(log.gamma, rel=0.01)


def test_metrics_and_answers_of_vllm_say_the_same():
    (metrics,) = read((RECORDED / "vllm_0.32_metrics.txt").read_text())
    assert metrics.form.startswith("counters") and metrics.gamma == 3 and len(metrics.reached) == 3
    assert sum(metrics.reached) == pytest.approx(metrics.accepted / metrics.rounds)
    (answer,) = read((RECORDED / "vllm_0.32_eagle_chat.txt").read_text())
    assert (answer.rounds, answer.drafted, answer.accepted, answer.gamma) == (17, 51, 22, 3)


def test_lines_of_unlike_lengths_are_not_mixed():
    three = LOGS["vLLM 0.32"].text
    one = (
        three.replace("Drafted: 54", "Drafted: 20")
        .replace("0.222, 0.056, 0.000", "0.500")
        .replace("Accepted: 5 ", "Accepted: 10 ")
    )
    readings = read("\n".join([three, one.replace("length: 1.28", "length: 1.50"), three]))
    assert [(r.gamma, r.lines, r.accepted) for r in readings] == [(1, 1, 10), (3, 2, 10)]
    assert readings[0].tau == 1.5 and readings[1].reached == pytest.approx((0.222, 0.056, 0))


def test_other_forms_and_no_form():
    timings = '{"timings": {"draft_n": 604, "draft_n_accepted": 515}}'
    assert [(r.engine, r.per_drafted, r.tau) for r in read(timings)] == [("llama.cpp", 515 / 604, None)]
    totals = "statistics draft-mtp: #gen drafts = {}, #acc drafts = 109, #gen tokens = {}, #acc tokens = {},"
    (reading,) = read(totals.format(10, 40, 20) + "\n" + totals.format(134, 536, 354))
    assert reading.tau == pytest.approx(1 + 354 / 134), "its counts grow, so only the last line counts"
    meta = '"spec_verify_ct": 125, "spec_num_proposed_drafts": 1000, "spec_num_correct_drafts": 600'
    assert read(meta)[0].tau == 5.8
    assert read("") == read("INFO: Uvicorn running") == [] and read_metrics("nothing") is None
    assert read("SpecDecoding metrics: Mean acceptance length: 1.28, Acc") == [], "a line that was cut"
