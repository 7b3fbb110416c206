"""Reads the published benchmarks (assets/data/benchmarks), whose measured speedups the lessons quote."""

import json
from functools import lru_cache

from engine.files import ASSETS
from engine.trace.speedup_model import idealised_speedup

FILES = {0: "cpu.json", 1: "cpu-temperature-1.json"}


@lru_cache(maxsize=len(FILES))
def _rows(temperature: int) -> dict[tuple[str, str], dict]:
    report = json.loads((ASSETS / "data" / "benchmarks" / FILES[temperature]).read_text(encoding="utf-8"))
    return {(row["method"], row["category"]): row for row in report["rows"]}


def measured(method: str, category: str) -> float:
    """Returns the speedup over plain decoding by the same engine, greedy, on a category of prompts or on "all"."""
    return _rows(0)[method, category]["speedup"]


def measured_kinds() -> dict[str, dict[str, float]]:
    """Returns the speedup of each drafter on each category of prompts."""
    names = {"ngram": "copying", "lm": "small model", "eagle": "EAGLE head"}
    kinds = dict.fromkeys(category for _, category in _rows(0) if category != "all")
    return {kind: {name: measured(method, kind) for method, name in names.items()} for kind in kinds}


def measured_low(method: str, category: str) -> float:
    """Returns the lower end of the 95 % interval of ``measured``, over the category's prompts."""
    return _rows(0)[method, category]["ci95"][0]


def measured_high(method: str, category: str) -> float:
    """Returns the upper end of the 95 % interval of ``measured``, over the category's prompts."""
    return _rows(0)[method, category]["ci95"][1]


def measured_idealised(method: str, category: str, gamma: int) -> float:
    """Returns the idealised speedup at γ, by the α of a category and the costs of the same benchmark."""
    row = _rows(0)[method, category]
    v = {int(width): cost for width, cost in row["v"].items()}
    return idealised_speedup(row["acceptance"], gamma, row["c"], v)


def measured_prediction(method: str, category: str) -> float:
    """Returns the speedup that was predicted for the same runs, from their rounds and the costs measured before."""
    return _rows(0)[method, category]["predicted_speedup"]


def measured_alpha(method: str, temperature: int, category: str = "all") -> float:
    """Returns accepted ÷ tested drafts on a category of prompts, at temperature 0 or 1."""
    return _rows(temperature)[method, category]["acceptance"]
