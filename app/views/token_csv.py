"""Writes the tokens of a trace as CSV that is safe to open in a spreadsheet."""

from app.views.table import csv_text
from engine.trace.events import Round, Token
from engine.trace.trace import Trace

COLUMNS = ("round", "gamma", "position", "depth", "status", "id", "text", "p", "q", "u", "accept", "gap")


def tokens_csv(trace: Trace) -> str:
    """A row a token, discarded ones too. Numbers are written in full, absent ones left empty."""
    return csv_text(COLUMNS, (_row(event, token) for event in trace.rounds for token in event.tokens))


def _row(event: Round, token: Token) -> tuple:
    text, numbers = token.text or token.label or "", (token.p, token.q, token.u, token.accept, token.gap)
    return event.index, event.gamma, token.position, token.depth, token.status, token.id, text, *numbers
