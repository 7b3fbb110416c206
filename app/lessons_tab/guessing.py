"""Turns recorded runs of one text into a game: the tokens to guess, four candidates each, and the drafters' scores.

The candidates come from a run at a low temperature, because a greedy run records only its favourite. Pure; no torch.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

CANDIDATES = 4
NAMES = {"ngram": "copying", "lm": "small model", "eagle-chain": "EAGLE head"}


def game(wide: Trace, drafted: Sequence[Trace]) -> dict[str, Any]:
    """Makes the guessing game. Raises ValueError unless ``wide`` and all runs of ``drafted`` have the same text and
    were drafted at the same γ."""
    ids = [token.id for token in wide.emitted]
    for trace in drafted:
        if [token.id for token in trace.emitted] != ids:
            raise ValueError("the runs have not written the same text")
    if len({trace.started.gamma for trace in drafted}) != 1:
        raise ValueError("the runs differ in γ")
    return {
        "prompt": wide.started.prompt_text,
        "tokens": [token.text for token in wide.emitted],
        "candidates": [_candidates(place, wide, drafted) for place in range(len(ids))],
        "drafters": [_score(trace) for trace in drafted],
    }


def _candidates(place: int, wide: Trace, drafted: Sequence[Trace]) -> list[str]:
    """Returns the token and three others, sorted: the target's next choices, rejected drafts, tokens of the text."""
    token = wide.emitted[place]
    tested = [each for trace in drafted for one in trace.rounds for each in one.tokens if each.status == "rejected"]
    texts = [
        token.text,
        *(candidate.text for candidate in token.p_top.top),
        *(each.text for each in tested if each.position == place),
        *(each.text for each in wide.emitted),
    ]
    return sorted(list(_distinct(texts))[:CANDIDATES], key=str.strip)


def _distinct(texts: Iterable[str]) -> Iterable[str]:
    """Yields each text that looks unlike those before it."""
    seen = set()
    for text in texts:
        if text.strip() and text.strip() not in seen:
            seen.add(text.strip())
            yield text


def _score(trace: Trace) -> list:
    """Returns [name, α, τ]."""
    metrics = compute_metrics(trace)
    return [NAMES[trace.started.method], metrics.alpha.value, metrics.tau.value]
