"""What the lessons' tools read out of logs, reports and recorded counts."""

import re
from dataclasses import asdict

import pytest
from engine_logs import CASES, text_of

from app.lessons_tab.variables import variables_of
from engine.tools.servers import check_server
from engine.tools.servers.log_reader import report as report_on
from engine.trace.speedup_model import expected_tokens
from engine.trace.trace import load
from lessons.schema import TRACES

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("name", CASES)
def test_a_text_is_read_in_the_browser_as_in_python(bare, name):
    wanted, found = report_on(text_of(name)), bare.evaluate("text => readLog(text)", text_of(name))
    assert found["unused"] == wanted.unused
    assert found["readings"] == [asdict(r) | {"reached": pytest.approx(list(r.reached))} for r in wanted.readings]


@pytest.mark.parametrize(
    ("name", "tau", "gamma", "is_exact"),
    [
        ("vLLM 0.32", 1.28, 3, True), ("vLLM before positions", 5, 4, False), ("SGLang with zeros alone", 1, 4, False),
        ("llama.cpp of 2025", 1 + 171 / (297 / 4), 4, False), ("llama.cpp mean len", 4.3, 5, False),
        ("vLLM, two draft lengths", 1.28, 3, True), ("OpenAI predictions", 4, 4, False),
    ],
)  # fmt: skip
def test_the_tool_fills_in_what_a_text_does_not_tell(bare, name, tau, gamma, is_exact):
    found = bare.evaluate("text => readAcceptance(text, 4)", text_of(name))
    assert (found["gamma"], found["exact"]) == (gamma, is_exact) and found["tau"] == pytest.approx(tau, abs=0.01)
    if not is_exact and tau > 1:  # one α for all positions, which gives this τ
        assert expected_tokens(found["alphas"][0], gamma) == pytest.approx(found["tau"], rel=0.001)


def test_best_length_follows_alpha_by_position_and_bad_logs_are_refused(bare):
    found, speedups = bare.evaluate(
        "log => { const found = readAcceptance(log, 4); return [found, speedupsOf(found, 0.1, 0.02, 16)]; }",
        text_of("llama.cpp of spring 2026"),
    )
    tokens = [1, 1 + 0.804, 1 + 0.804 + 0.701, 1 + 0.804 + 0.701 + 0.629]
    assert speedups[:4] == pytest.approx([n / (1 + 0.12 * gamma) for gamma, n in enumerate(tokens)], rel=1e-3)
    advice = "([found, best]) => adviceFor(found, best, 16)"
    for given, best, said in (
        (found, 2, "Draft 2 instead of 4"), (found, 0, "turn drafting off"), (found, 16, "Try 16 or more"),
        (found | {"alphas": [0.2]}, 3, "chat template"),
    ):  # fmt: skip
        assert said in bare.evaluate(advice, [given, best])
    for text, said in (
        ("   ", "Paste lines"), (text_of("nothing"), "No acceptance found"),
        (text_of("trtllm-bench, cut"), "end before their numbers"),
        (text_of("vLLM, numbers that cannot be"), "cannot be"),
        (text_of("vLLM counters of a fresh server"), "drafted nothing"),
    ):  # fmt: skip
        assert said in bare.evaluate("text => readAcceptance(text, 4).problem", text), text
    long = "text => readAcceptance('x '.repeat(5e6) + text, 4).engine"
    assert bare.evaluate(long, text_of("vLLM 0.32")) == "vLLM", "in seconds"


def test_reports_of_the_script_are_judged_by_its_own_limits(bare):
    for report in bare.evaluate("() => REPORTS"):
        gaps = [float(gap) for gap in re.findall(r"gap (\d+\.\d+)", report["lines"][1])]
        pattern = r"Sampled, (\d+) a side: chi-squared ([\d.]+), (\d+) degrees? of freedom, p = ([\d.e-]+)\."
        printed = re.fullmatch(pattern, report["lines"][3]).groups()
        change, tie = map(float, re.findall(r"up to (\d\.\d+)", report["lines"][2]))
        assert tie == max(check_server.NEAR_TIE, 2 * change)
        draws, statistic, freedom, p = map(float, printed)
        assert printed[3] == f"{check_server.p_value(statistic, freedom):.2g}"
        bad = max(gaps, default=0) > tie or p < 1e-4
        assert report["verdict"] == ("bug" if bad else "tie" if gaps else "little")
        assert (draws < 50) == (report["verdict"] == "little")


def test_a_defence_hides_the_bursts_and_has_its_price(bare):
    bursts = [1, 5, 5, 1, 1, 2]
    script = "([bursts, how]) => defend(bursts, how, 5)"
    found = {how: bare.evaluate(script, [bursts, how]) for how in ("open", "padded", "lumps", "single")}
    assert found["open"] == {"seen": bursts, "sent": 1, "wait": 0}
    assert found["padded"] == {"seen": [5] * 6, "sent": 30 / 15, "wait": 0}
    assert set(found["lumps"]["seen"]) == {6} and found["lumps"]["wait"] > 0
    arrived = [at for at, size in enumerate(bursts) for _ in range(size)]
    assert found["single"]["seen"] == [1] * 15
    for how, each in found.items():
        assert sum(each["seen"]) == pytest.approx(each["sent"] * 15), how
    assert found["single"]["wait"] == pytest.approx(sum(i - at for i, at in enumerate(arrived)) / 15)


def test_each_unknown_run_has_the_trouble_that_its_counts_show(bare):
    names = {"story_ngram": "nothing", "story_lm8": "long", "rewrite_ngram": "healthy", "code_lookahead": "wide"}
    for name, trouble in names.items():
        counts = variables_of(load(TRACES / f"{name}.json"))["symptoms"]
        assert bare.evaluate("run => causeOf(run)", counts) == trouble, name
        assert counts["tokens"] == sum(counts["bursts"]) and counts["passes"] == len(counts["bursts"])
    assert bare.evaluate("causeOf({ passes: 40, drafted: 158, accepted: 0, tested: 40, empty: 0 })") == "wiring"
