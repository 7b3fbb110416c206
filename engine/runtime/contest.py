"""Says which methods with a model are worth a place in an auto run, before any of them is loaded.

A method's promise for a kind of text is its best speedup by the formula, from its c and v on this machine and from the
share of its drafts that benchmarks saw accepted at this temperature (`assets/data/acceptance.json`).
"""

from collections.abc import Mapping
from functools import cache

from engine.config import MAX_GAMMA, method_of
from engine.files import ASSETS, read_json
from engine.trace.costs import CostModel
from engine.trace.speedup_model import best_length, expected_tokens

_CLOSE = 0.9  # share of the best promise that keeps a method in


@cache
def _read_records() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    return read_json(ASSETS / "data" / "acceptance.json")


def known_acceptance(pair: str, temperature: float) -> dict[str, dict[str, float]]:
    """Returns the share of drafts that were accepted, by method and kind of text, at the recorded temperature that is
    nearest; empty for a pair without records."""
    return {
        method: by_temperature[min(by_temperature, key=lambda each: abs(float(each) - temperature))]
        for method, by_temperature in _read_records().get(pair, {}).items()
    }


def promise(method: str, alpha: float, costs: CostModel) -> float:
    """Returns the best speedup of chains of one length, 1 where none pays."""
    (c, v), at_once = costs.costs_of(method), method_of(method).drafts_at_once
    gamma = best_length([alpha] * MAX_GAMMA, c, v, at_once)
    return expected_tokens(alpha, gamma) / costs.round_cost(method, min(gamma, 1) if at_once else gamma, gamma)


def without_a_chance(acceptance: Mapping[str, Mapping[str, float]], costs: CostModel) -> frozenset[str]:
    """Returns the methods that promise no gain, or clearly less than the best, for every kind of text. One stays where
    its c, or its acceptance, is not known."""
    judged = [name for name in acceptance if name in costs.draft_costs]
    kinds = {kind for name in judged for kind in acceptance[name]}
    promises = [{name: promise(name, acceptance[name][kind], costs) for name in judged} for kind in kinds]
    close = {n for each in promises for n in judged if each[n] > 1.0 and each[n] >= _CLOSE * max(each.values())}
    return frozenset(judged) - close
