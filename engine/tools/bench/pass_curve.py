"""Describes what a pass over W rows costs on a machine that was measured elsewhere, and refuses what cannot be.

The curve takes the place of this machine's v(W) where a speedup is predicted. `servers/curve_reader.py` reads other
programs' output. Imports no torch.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import BadInput
from engine.trace.noise import STEADIEST

WIDTHS = (1, 2, 4, 8, 16)  # that five numbers without a name are for
MOST_ROWS = 4096
MOST_PER_ROW = 1.5  # plain passes for each row of a wide pass, from which it cannot be one


@dataclass(frozen=True)
class RowCost:
    """What a pass over ``rows`` takes, in any unit. ``place``: where it was read, such as "Line 4"."""

    rows: int
    cost: float
    place: str


@dataclass(frozen=True)
class PassCurve:
    """``v``: the cost of a pass by its rows, in passes over one; ``source``: what measured it; ``step``: seconds of a
    pass over one, where they are known. ``c`` is the cost of a draft step and ``fixed`` what a round with drafts costs
    before the first of them, in passes over one, where a server's points told them. ``note``: what it leaves out."""

    v: Mapping[int, float]
    source: str
    step: float | None = None
    c: float | None = None
    fixed: float = 0.0
    note: str = ""

    @property
    def widest(self) -> int:
        return max(self.v)

    @property
    def round_costs(self) -> dict[int, float]:
        """The cost of a round's pass for one user: v, with the fixed cost wherever something is drafted."""
        return {rows: cost + (self.fixed if rows > 1 else 0.0) for rows, cost in self.v.items()}

    @property
    def words(self) -> str:
        """Says where it is from and what it is, as in "llama-bench: v(2) = 1.10, v(4) = 1.32."."""
        costs = ", ".join(f"v({rows}) = {cost:.2f}" for rows, cost in self.v.items() if rows > 1)
        more = "" if self.c is None else f"; a draft step costs {self.c:.2f}"
        more += f", and a round with drafts {self.fixed:.2f} besides" if self.fixed else ""
        return f"{self.source}: {costs}{more}."

    def to_dict(self) -> dict[str, Any]:
        """Returns what the page's scripts need of it."""
        costs = {"v": self.v, "round": self.round_costs}
        rounded = {name: {str(rows): round(cost, 6) for rows, cost in each.items()} for name, each in costs.items()}
        known = {"c": self.c, "widest": self.widest, "source": self.source, "note": self.note, "words": self.words}
        return rounded | known


def curve_of(costs: Sequence[RowCost], source: str, seconds: float | None = None, note: str = "") -> PassCurve:
    """Makes a curve of measured passes; several of the same width count by their mean. ``seconds``: the length of one
    unit of the costs. Raises BadInput that names the place of a cost which cannot be."""
    by_rows: dict[int, list[RowCost]] = {}
    for each in costs:
        _check_alone(each)
        by_rows.setdefault(each.rows, []).append(each)
    if 1 not in by_rows:
        raise BadInput("There is no pass over one row, which every cost is compared with. Measure a batch of 1, too.")
    if len(by_rows) < 3 or not any(1 < rows <= 8 for rows in by_rows):
        raise BadInput(
            "A curve needs a pass over one row and at least two wider ones, one of them over 2 to 8 rows: "
            "measure 1, 2, 4, 8 and 16."
        )
    one, v, widest = _mean(by_rows[1]), {1: 1.0}, by_rows[1][0]
    for rows in sorted(by_rows)[1:]:
        newest, cost = by_rows[rows][-1], _mean(by_rows[rows]) / one
        before = v[widest.rows]
        if cost < (1 - STEADIEST) * before:
            raise BadInput(
                f"{newest.place}: a pass over {rows} rows takes {cost / before:.2f} times as long as one over "
                f"{widest.rows}, and a wider pass cannot cost less. Measure both again on a quiet machine."
            )
        if cost > MOST_PER_ROW * rows:
            raise BadInput(
                f"{newest.place}: a pass over {rows} rows takes {cost:.3g} times as long as one over one row, so "
                f"{rows} passes would be quicker. Measure on a quiet machine, and give costs, not tokens per second."
            )
        v[rows], widest = max(cost, before), newest
    return PassCurve(v, source, None if seconds is None else one * seconds, note=note)


def _check_alone(each: RowCost) -> None:
    if not 1 <= each.rows <= MOST_ROWS:
        raise BadInput(f"{each.place}: a pass has from 1 to {MOST_ROWS:,} rows, and this one has {each.rows:,}.")
    if not (math.isfinite(each.cost) and each.cost > 0):
        raise BadInput(f"{each.place}: {each.cost:g} cannot be the cost of a pass; give a number above 0.")


def _mean(costs: Sequence[RowCost]) -> float:
    return sum(each.cost for each in costs) / len(costs)


def curve_of_numbers(text: str) -> PassCurve:
    """Reads five numbers, the cost of a pass over 1, 2, 4, 8 and 16 rows, or lines of rows and cost. Raises BadInput.

    >>> curve_of_numbers("10, 11, 13, 18, 30").v
    {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.8, 16: 3.0}
    """
    text = re.sub(r"(?<=\d)(?:[^\S\n]*m?s|[x×])(?=[\s,;]|$)", "", text)
    lines = [(i, re.findall(r"[^\s,;:|=]+", line)) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) == 1 or all(len(parts) == 1 for _, parts in lines):
        named = [(i, part) for i, parts in lines for part in parts]
        if len(named) != len(WIDTHS):
            raise BadInput(f"Give five numbers, what a pass over 1, 2, 4, 8 and 16 rows costs; these are {len(named)}.")
        pairs = [(i, str(rows), part) for rows, (i, part) in zip(WIDTHS, named, strict=True)]
    else:
        if wrong := next((i for i, parts in lines if len(parts) != 2), None):
            raise BadInput(f"Line {wrong}: give the rows of a pass and its cost, as in 4 1.3.")
        pairs = [(i, *parts) for i, parts in lines]
    costs = []
    for i, rows, cost in pairs:
        try:
            costs.append(RowCost(int(rows), float(cost), f"Line {i}"))
        except ValueError:
            raise BadInput(f"Line {i}: “{rows[:20]} {cost[:20]}” is not the rows of a pass and its cost.") from None
    return curve_of(costs, "your numbers")
