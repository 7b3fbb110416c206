"""Renders a table as JSON (a caption, a row of heads, rows of cells, of which the first names the row) or as CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from app.views.safe_json import encode
from engine.files import escape_formula
from engine.trace.noise import NOISE, PLAIN, Speedup
from engine.trace.speedup_words import DASH

BEST = "best"


def sheet(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str | tuple[str, str]]]) -> str:
    """Returns a table as JSON. A cell is its text, or (text, mark) where it stands out: BEST, a verdict, "right" or
    "wrong", or NOISE, beside which the page offers to measure again."""
    cells = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    return encode({"caption": caption, "heads": list(heads), "rows": cells})


def speedup_cell(speedup: Speedup | None, is_best: bool = False) -> tuple[str, str]:
    """Returns the cell of a speedup with its interval: 1 for plain decoding, and a dash for none. Noise is marked."""
    if speedup is None or not speedup.is_possible:
        return (NOISE, NOISE) if speedup else (DASH, "")
    return "1" if speedup == PLAIN else speedup.words, BEST if is_best else ""


def empty() -> str:
    return sheet("", (), ())


def csv_text(heads: Sequence[str], rows: Iterable[Sequence], where: Mapping[str, str] = MappingProxyType({})) -> str:
    """Writes a CSV: numbers in full, None as an empty cell, texts that no spreadsheet runs as formulas. ``where``: what
    each row ends with, such as the device."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([*heads, *where])
    for row in rows:
        writer.writerow([escape_formula(cell) if isinstance(cell, str) else cell for cell in (*row, *where.values())])
    return out.getvalue()
