"""Describes each drafting method in one sentence: what it reads, and what it costs as far as that is known."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.form import METHOD_LABELS, choices
from engine.config import AUTO, METHODS, constraint_methods, method_of

LEAST = 1e6  # bytes; a smaller table is not worth a word


def method_choices(service, pair: str) -> list[tuple[str, str]]:
    """Returns (label, value) of auto and each method that a pair has."""
    return _choices(service, pair, service.offer.methods(pair))


def run_methods(service, pair: str) -> list[tuple[str, str]]:
    """Returns (label, value) of auto, each method of a pair, and those that draft from a run's constraint."""
    own = set(service.offer.methods(pair)) | set(constraint_methods())
    return _choices(service, pair, [method for method in METHODS if method in own])


def _choices(service, pair: str, methods: Iterable[str]) -> list[tuple[str, str]]:
    return choices(method_labels(service.offer.method_costs(pair)), (AUTO, *methods))


def method_labels(costs: Mapping[str, Any]) -> dict[str, str]:
    """Returns the label of every method by name. ``costs``: MethodCosts by method, as far as known."""
    known = {name: _words(name, cost) for name, cost in costs.items() if name != "none"}
    return METHOD_LABELS | {name: f"{METHOD_LABELS[name]}; {words}" for name, words in known.items()}


def _words(method: str, costs) -> str:
    memory = f", about {costs.memory / 1e6:,.0f} MB" if costs.memory >= LEAST else ""
    if rows := method_of(method).rows:
        return f"up to {rows(**method_of(method).defaults)} more rows per pass"
    if not method_of(method).runs_model:
        return f"no draft step{memory}"
    if costs.c is None:
        return f"c not measured here yet{memory}"
    return f"c = {costs.c:.2g} plain steps a {'round' if method_of(method).drafts_at_once else 'draft'}{memory}"
