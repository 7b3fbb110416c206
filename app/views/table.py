"""Renders a table as JSON: a caption, a row of heads, rows of cells. The first cell of a row names it."""

from collections.abc import Sequence

from app.views.safe_json import encode

BEST = "best"


def sheet(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str | tuple[str, str]]]) -> str:
    """A cell is its text, or (text, mark) where it stands out; the one mark there is: BEST."""
    cells = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    return encode({"caption": caption, "heads": list(heads), "rows": cells})


def empty() -> str:
    return sheet("", (), ())
