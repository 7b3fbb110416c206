"""The tokens of a trace as CSV, safe to open in a spreadsheet."""

import csv
import io

from engine.trace import Trace

COLUMNS = ("round", "gamma", "position", "depth", "status", "id", "text", "p", "q", "u", "accept", "gap")
# A cell that begins so is run as a formula somewhere; the wide forms too, in East Asian versions.
_STARTS_FORMULA = tuple("=+-@|%\t\r\n＝＋－＠")


def tokens_csv(trace: Trace) -> str:
    """A row a token, discarded ones too. Numbers are written in full, absent ones left empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for event in trace.rounds:
        for token in event.tokens:
            numbers = (token.p, token.q, token.u, token.accept, token.gap)
            text = harmless(token.text or token.label or "")
            writer.writerow(
                (event.index, event.gamma, token.position, token.depth, token.status, token.id, text, *numbers)
            )
    return out.getvalue()


def harmless(text: str) -> str:
    """A text that a spreadsheet shows and never runs: behind an apostrophe where it would begin a formula.

    >>> harmless("=1+1")
    "'=1+1"
    """
    begins = text.startswith(_STARTS_FORMULA) or text.lstrip().startswith(_STARTS_FORMULA)
    return f"'{text}" if begins else text
