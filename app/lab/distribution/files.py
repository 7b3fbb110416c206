"""Writes tests of rules as files, and reads them again."""

import json
import math
from collections import Counter
from collections.abc import Mapping

from app.lab.distribution.request import TOY_PROMPT, RuleReport, RuleTest, Tested
from app.lab.recorded import Recorded
from app.views.table import csv_text
from engine.config import RunConfig, SamplingParams
from engine.tools.exactness.results import MISTAKES, RIGHT, TOYS, Draws, RuleTestResult


def outcomes_csv(report: RuleReport, where: Mapping[str, str]) -> str:
    """Writes every outcome of the law, and any other that was seen. ``where``: as in `to_json`."""
    rows, between = [], " " if report.test.toy else ""
    for outcome in report.outcomes:
        mass, ids = report.mass(outcome), " ".join(map(str, outcome))
        text = between.join(report.words.get(outcome, ()))
        rows.append((report.rule, ids, text, mass, mass * report.result.runs, report.count(outcome)))
    return csv_text(("rule", "tokens", "text", "probability", "expected", "seen"), rows, where)


def rules_csv(results: Tested, where: Mapping[str, str]) -> str:
    heads = ("rule", "mistake", "method", "alpha", "distance", "band_low", "band_high", "chi_squared", "freedom",
             "p_value", "runs", "verdict")  # fmt: skip
    rows = []
    for rule, report in results.items():
        result, mistake = report.result, "" if rule == RIGHT else MISTAKES[rule].words
        numbers = (result.alpha, result.distance, *result.band, result.statistic, result.freedom, result.p_value)
        rows.append((rule, mistake, report.test.method, *numbers, result.runs, result.verdict))
    return csv_text(heads, rows, where)


def to_json(results: Tested, where: Mapping[str, str]) -> str:
    """Writes everything: settings, numbers, and every outcome. An infinite χ² is null, which JSON has. ``where``:
    device, precision, version and time."""
    content = {"speclens": "rules", **where, "tests": [_content(report) for report in results.values()]}
    return json.dumps(content, allow_nan=False, indent=1)


def from_json(saved: bytes) -> Recorded:
    """Reads what `to_json` gave."""
    content = json.loads(saved)
    reports = [_report(test) for test in content["tests"]]
    return Recorded.from_file({report.rule: report for report in reports}, content)


def _report(test: Mapping) -> RuleReport:
    form = test["asked"]
    sampling = SamplingParams(**form["sampling"])
    prompt = TOY_PROMPT if form["pair"] in TOYS else form["prompt"]
    config = RunConfig(
        prompt, form["pair"], form["method"], form["gamma"], sampling, form["length"], form["first"], chat=False
    )  # fmt: skip
    outcomes = {tuple(each["tokens"]): each for each in test["outcomes"]}
    counts = Counter({outcome: each["seen"] for outcome, each in outcomes.items() if each["seen"]})
    law = {outcome: each["probability"] for outcome, each in outcomes.items()}
    statistic = math.inf if test["chi_squared"] is None else test["chi_squared"]
    result = RuleTestResult(
        law, Draws(counts, test["accepted"], test["tested"]), statistic, test["freedom"], test["p_value"],
        test["distance"], tuple(test["band"]), test["false_alarm"],
    )  # fmt: skip
    words = {outcome: tuple(each["text"]) for outcome, each in outcomes.items()}
    return RuleReport(RuleTest(config, form["rule"], form["runs"]), result, words)


def _content(report: RuleReport) -> dict:
    result = report.result
    names = ("runs", "freedom", "p_value", "false_alarm", "distance", "band", "verdict")
    return {name: getattr(result, name) for name in names} | {
        "asked": report.test.as_dict,
        "accepted": result.draws.accepted,
        "tested": result.draws.tested,
        "chi_squared": None if math.isinf(result.statistic) else result.statistic,
        "outcomes": [
            {"tokens": list(outcome), "text": list(report.words.get(outcome, ())),
             "probability": report.mass(outcome), "seen": report.count(outcome)}
            for outcome in report.outcomes
        ],
    }  # fmt: skip
