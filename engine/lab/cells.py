"""What a sweep came to, as numbers and tables. Needs neither torch nor a model."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from engine.scores import BASELINE


@dataclass(frozen=True)
class Cell:
    """What a setting came to on the texts of a category (or "all"). ``low`` and ``high``: 95 % of the speedup, by
    bootstrap over turns; None with fewer than two."""

    method: str
    gamma: int | str
    temperature: float
    category: str
    turns: int
    speedup: float
    low: float | None
    high: float | None
    tokens_per_second: float
    alpha: float | None
    tau: float


def best(cells: Sequence[Cell]) -> dict[tuple[float, str], Cell]:
    """(temperature, category) → the fastest setting; plain decoding where nothing beats it."""
    found: dict[tuple[float, str], Cell] = {}
    for cell in cells:
        key = (cell.temperature, cell.category)
        if key not in found or cell.speedup > found[key].speedup:
            found[key] = cell
    return found


def to_csv(cells: Sequence[Cell]) -> str:
    """A header and a row a cell."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*Cell.__dataclass_fields__], lineterminator="\n")
    writer.writeheader()
    for cell in cells:
        writer.writerow(asdict(cell) | {"category": _harmless(cell.category)})
    return out.getvalue()


def _harmless(text: str) -> str:
    """A spreadsheet would run a cell that begins so as a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") else text


def markdown(cells: Sequence[Cell]) -> str:
    """A table of speedups for each temperature: settings down, categories across, the best of each in bold."""
    top, tables = best(cells), []
    for temperature in dict.fromkeys(c.temperature for c in cells):
        here = [c for c in cells if c.temperature == temperature]
        categories = list(dict.fromkeys(c.category for c in here))
        lines = [f"| temperature {temperature:g} | {' | '.join(categories)} |", f"| --- |{' --- |' * len(categories)}"]
        for method, gamma in dict.fromkeys((c.method, c.gamma) for c in here):
            row = {c.category: c for c in here if (c.method, c.gamma) == (method, gamma)}
            named = method if method == BASELINE else f"{method}, γ = {gamma}"
            shown = (_shown(row[c], row[c] is top[temperature, c]) for c in categories)
            lines.append(f"| {named} | {' | '.join(shown)} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def _shown(cell: Cell, first: bool) -> str:
    spread = f" ({cell.low:.2f}–{cell.high:.2f})" if cell.low is not None and cell.method != BASELINE else ""
    return f"**{cell.speedup:.2f}**{spread}" if first else f"{cell.speedup:.2f}{spread}"
