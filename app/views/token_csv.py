"""Writes the tokens of a trace as CSV that is safe to open in a spreadsheet."""

from app.views.table import csv_text
from engine.trace.events import Round, Token
from engine.trace.trace import Trace

NUMBERS = ("p", "q", "u", "accept", "gap", "running", "h")
COLUMNS = ("round", "gamma", "position", "depth", "status", "id", "text", *NUMBERS)


def tokens_csv(trace: Trace) -> str:
    """A row a token, discarded ones too. Numbers are written in full, absent ones left empty."""
    return csv_text(COLUMNS, (_row(event, token) for event in trace.rounds for token in event.tokens))


def _row(event: Round, token: Token) -> tuple:
    text, numbers = token.text or token.label or "", (getattr(token, name) for name in NUMBERS)
    return event.index, event.gamma, token.position, token.depth, token.status, token.id, text, *numbers
