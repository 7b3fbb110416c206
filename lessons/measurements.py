"""Reads the published benchmarks (assets/data/benchmarks), whose measured speedups the lessons quote."""

import json
from functools import lru_cache

from engine.files import ASSETS
from engine.trace.speedup_words import day

FILES = {0: "cpu.json", 1: "cpu-temperature-1.json", "laptop": "laptop.json"}
LAPTOP = "laptop"  # with the target in three precisions


@lru_cache(maxsize=len(FILES))
def _report(name: int | str) -> dict:
    return json.loads((ASSETS / "data" / "benchmarks" / FILES[name]).read_text(encoding="utf-8"))


@lru_cache(maxsize=len(FILES))
def _rows(temperature: int) -> dict[tuple[str, str], dict]:
    return {(row["method"], row["category"]): row for row in _report(temperature)["rows"]}


def measured_gain(method: str, category: str, temperature: int = 0) -> float:
    """Returns the speedup over plain decoding by the same engine, on a category of prompts or "all", at temperature 0
    or 1."""
    return _rows(temperature)[method, category]["speedup"]


def measured_kinds_slowed(method: str, number: str = "speedup") -> int:
    """Returns on how many kinds of text the speedup of a method, or its "alpha", falls with heat."""
    of = {"speedup": lambda kind, heat: measured_gain(method, kind, heat),
          "alpha": lambda kind, heat: measured_alpha(method, heat, kind)}[number]  # fmt: skip
    return sum(of(kind, 1) < of(kind, 0) for kind in measured_kinds())


def measured_on() -> str:
    """Returns the machine, the precision and the day of ``measured_gain``."""
    environment = _report(0)["environment"]
    return f"{environment['precision']}, {_machine_and_day(environment)}"


def _machine_and_day(environment: dict) -> str:
    return f"{environment['processor']}, {day(environment['time'])}"


def measured_kinds() -> dict[str, dict[str, list]]:
    """Returns [speedup, the speedups of the single prompts] of each drafter on each category of prompts."""
    names = {"ngram": "copying", "lm": "small model", "eagle": "EAGLE head"}
    kinds = dict.fromkeys(category for _, category in _rows(0) if category != "all")

    def row(method: str, kind: str) -> list:
        return [measured_gain(method, kind), _prompts(method, kind)]

    return {kind: {name: row(method, kind) for method, name in names.items()} for kind in kinds}


@lru_cache(maxsize=64)
def _prompts(method: str, category: str, temperature: int = 0) -> list[float]:
    """Returns the speedup on each prompt of a category, in one order for all methods."""
    plain, ours = ({sample["prompt"]: sample["decode_seconds"] / sample["tokens"]
                    for sample in _samples(name, category, temperature)} for name in ("none", method))  # fmt: skip
    return [plain[prompt] / ours[prompt] for prompt in sorted(plain)]


def _samples(method: str, category: str, temperature: int) -> list[dict]:
    every = _report(temperature)["samples"]
    return [sample for sample in every if sample["method"] == method and category in (sample["category"], "all")]


def measured_heat() -> dict[str, dict[str, list]]:
    """Returns, for each drafter and each kind of text or "all", at temperature 0 and at 1: α, the speedup, and both of
    the single prompts, [α, speedup, [α, …], [speedup, …]]. The first two are ratios of totals, as in the published
    tables."""

    def numbers(method: str, kind: str, temperature: int) -> list:
        counts = [[sum(part) for part in zip(*sample["by_depth"], strict=True)]
                  for sample in _samples(method, kind, temperature)]  # fmt: skip
        alphas = [accepted / tested for accepted, tested in filter(None, counts)]
        totals = [measured_alpha(method, temperature, kind), measured_gain(method, kind, temperature)]
        return [*totals, alphas, _prompts(method, kind, temperature)]

    kinds = [*measured_kinds(), "all"]

    def by_kind(method: str) -> dict[str, list]:
        return {kind: [numbers(method, kind, temperature) for temperature in (0, 1)] for kind in kinds}

    return {"EAGLE head": by_kind("eagle"), "small model": by_kind("lm")}


def measured_wins(method: str, other: str, category: str) -> int:
    """Returns on how many prompts of a category ``method`` is faster than ``other``."""
    return sum(mine > its for mine, its in zip(_prompts(method, category), _prompts(other, category), strict=True))


def measured_on_prompts(method: str, category: str) -> str:
    """Returns the speedup on each prompt of a category, in one order for all methods."""
    return " ".join(f"{speedup:.2f}" for speedup in _prompts(method, category))


def measured_on_prompt(method: str, category: str, rank: int) -> float:
    """Returns the speedup on one prompt of a category, the slowest having rank 1."""
    return sorted(_prompts(method, category))[rank - 1]


def measured_precisions() -> dict[str, dict[str, float]]:
    """Returns by the target's precision: c of the same EAGLE head and the cost of each further token in a pass, both in
    plain steps of that precision, and ``fast``: how many of these take as long as one in fp32."""
    costs = _report(LAPTOP)["environment"]["costs"][0]
    head = costs["eagle"]["c"] * costs["eagle"]["step"]  # seconds

    def row(method: str) -> dict[str, float]:
        step, v = costs[method]["step"], costs[method]["v"]
        return {"c": head / step, "slope": (v["5"] - 1) / 4, "fast": costs["none"]["step"] / step}

    return {name: row(method) for name, method in {"fp32": "none", "int8": "none:int8", "int4": "none:int4"}.items()}


def measured_precisions_on() -> str:
    """Returns the machine and the day of ``measured_precisions``."""
    return _machine_and_day(_report(LAPTOP)["environment"])


def measured_prediction(method: str, category: str, temperature: int = 0) -> float:
    """Returns the speedup that was predicted for the same runs, from their rounds and the costs measured before."""
    return _rows(temperature)[method, category]["predicted_speedup"]


def measured_alpha(method: str, temperature: int, category: str = "all") -> float:
    """Returns accepted ÷ tested drafts on a category of prompts, at temperature 0 or 1."""
    return _rows(temperature)[method, category]["acceptance"]
