"""Lays runs of one text side by side at one place: the guesses of each drafter there, the rejections, and the cost.

Pure; no torch. The runs wrote the same tokens, so every round that begins at the place guesses the same ones.
"""

from collections.abc import Mapping
from typing import Any

from engine.trace.engine_recipes import NGRAM_LONGEST
from engine.trace.events import Round
from engine.trace.speedup_model import interpolate
from engine.trace.trace import Trace

BEFORE, AFTER = 12, 6  # tokens of the text shown on each side of the place


def side_by_side(place: int, runs: Mapping[str, Trace]) -> dict[str, Any]:
    """Returns the text around token ``place`` (counted from 0), and by each run's name its round that begins there, or
    None. ValueError unless all runs have the same text."""
    longest = max(runs.values(), key=lambda trace: len(trace.emitted))
    tokens = [token.text for token in longest.emitted]
    for name, trace in runs.items():
        if [token.text for token in trace.emitted] != tokens[: len(trace.emitted)]:
            raise ValueError(f"the run {name!r} wrote another text")
    history = [token.text for token in longest.started.prompt] + tokens[:place]
    return {
        "before": history[-BEFORE:],
        "next": tokens[place : place + AFTER],
        "drafters": {name: _round(place, trace, history) for name, trace in runs.items()},
    }


def _round(place: int, trace: Trace, history: list[str]) -> dict[str, Any] | None:
    begins = 0
    for one in trace.rounds:
        if begins == place:
            return _shown_round(one, trace, history)
        begins += len(one.emitted)
    return None


def _shown_round(one: Round, trace: Trace, history: list[str]) -> dict[str, Any]:
    costs, drafts = trace.started.costs, one.tokens[: len(one.parents)]
    guesses = [token.text for token in drafts]
    return {
        "guesses": [[token.text, token.status, parent] for token, parent in zip(drafts, one.parents, strict=True)],
        "closing": one.emitted[-1].text,
        "emitted": len(one.emitted),
        "steps": one.draft_steps,
        "c": costs.draft_cost(one.drafter),
        "v": interpolate(costs.v, len(drafts) + 1),
        "copied": _matched_tokens(history, guesses) if trace.started.method == "ngram" else None,
    }


def _matched_tokens(history: list[str], guesses: list[str]) -> list[str] | None:
    """Returns the tokens that a copy matched: the longest end of the text that occurred before, followed by these
    guesses."""
    for length in range(NGRAM_LONGEST if guesses else 0, 0, -1):
        end = history[-length:]
        for start in range(len(history) - length):
            after = start + length
            if history[start:after] == end and history[after : after + len(guesses)] == guesses:
                return end
    return None
