"""Writes the tokens of a trace as CSV that is safe to open in a spreadsheet."""

from collections.abc import Iterator

from app.views.table import csv_text
from engine.trace.events import Round, Token
from engine.trace.trace import Trace

NUMBERS = ("p", "q", "u", "accept", "gap", "running", "h", "threshold")
COLUMNS = ("round", "gamma", "position", "depth", "status", "id", "text", *NUMBERS, "lane", "exact")


def tokens_csv(trace: Trace) -> str:
    """Writes one row per token, discarded ones included; the branch's rows follow. Numbers are written in full, absent
    ones left empty."""
    lanes = [("run", trace)] + ([("branch", trace.branch)] if trace.branch else [])
    return csv_text(COLUMNS, ((*row, _exact(lane)) for name, lane in lanes for row in _rows(name, lane)))


def _exact(trace: Trace) -> str:
    if trace.started.server:
        return "unknown"  # whether a server keeps the distribution is not in its recording
    return "lossy" if trace.started.is_lossy else "exact"


def _rows(lane: str, trace: Trace) -> Iterator[tuple]:
    if prefix := trace.started.prefix:
        text = prefix[-1].text or prefix[-1].label or ""
        yield "", "", len(prefix) - 1, "", "forced", prefix[-1].id, text, *("" for _ in NUMBERS), lane
    for event in trace.rounds:
        yield from ((*_row(event, token), lane) for token in event.tokens)


def _row(event: Round, token: Token) -> tuple:
    text, numbers = token.text or token.label or "", (getattr(token, name) for name in NUMBERS)
    return event.index, event.gamma, token.position, token.depth, token.status, token.id, text, *numbers
