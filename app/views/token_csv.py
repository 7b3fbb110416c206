"""Writes the tokens of a trace as CSV that is safe to open in a spreadsheet."""

import csv
import io

from engine.files import escape_formula
from engine.trace.trace import Trace

COLUMNS = ("round", "gamma", "position", "depth", "status", "id", "text", "p", "q", "u", "accept", "gap")


def tokens_csv(trace: Trace) -> str:
    """A row a token, discarded ones too. Numbers are written in full, absent ones left empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for event in trace.rounds:
        for token in event.tokens:
            numbers = (token.p, token.q, token.u, token.accept, token.gap)
            text = escape_formula(token.text or token.label or "")
            writer.writerow(
                (event.index, event.gamma, token.position, token.depth, token.status, token.id, text, *numbers)
            )
    return out.getvalue()
