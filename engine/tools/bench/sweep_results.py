"""Computes the cells of a sweep, and writes them as tables. Needs neither torch nor a model."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from engine.files import escape_formula
from engine.tools.bench.metrics import ALL, summary, table
from engine.tools.bench.sample import BASELINE, Sample
from engine.tools.bench.winners import fastest
from engine.trace.noise import PLAIN, Speedup, ceiling, largest_share


@dataclass(frozen=True)
class Cell:
    """One setting on the texts of a category (or "all"). ``low`` and ``high``: 95 % of the speedup over turns;
    None with fewer than two. ``busy``: the largest share of the cores that other programs took in a turn;
    ``drafting``: the share of the rounds that tested a draft."""

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
    busy: float | None = None
    drafting: float = 1.0

    @property
    def measured(self) -> Speedup:
        """Plain decoding is 1 by definition."""
        if self.method == BASELINE:
            return PLAIN
        return Speedup(self.speedup, self.low, self.high, ceiling(self.tau), self.busy)


def cells(
    settings: Sequence[tuple[str, int | str]], temperatures: Sequence[float], categories: Sequence[str],
    samples: Mapping[tuple, Mapping[tuple, Sample]],
) -> list[Cell]:  # fmt: skip
    """Returns a cell for each setting, temperature and category with at least one turn; "all" comes first.
    ``categories`` of the prompts, in their order; ``samples``: (temperature, prompt, repeat) → {(method, γ):
    Sample}."""
    table_cells = []
    for temperature in temperatures:
        for category in [ALL, *dict.fromkeys(categories)]:
            turns = [
                turn for (t, prompt, _), turn in sorted(samples.items(), key=lambda item: item[0])
                if t == temperature and category in (ALL, categories[prompt])
            ]  # fmt: skip
            if turns:
                table_cells += [_cell(setting, temperature, category, turns) for setting in settings]
    return table_cells


def _cell(setting: tuple[str, int | str], temperature: float, category: str, turns: Sequence[Mapping]) -> Cell:
    ours, plain = [turn[setting] for turn in turns], [turn[BASELINE, 0] for turn in turns]
    numbers = summary(ours, plain)
    return Cell(
        *setting, temperature, category, len(turns), numbers["speedup"] or 0.0, *(numbers["ci95"] or (None, None)),
        numbers["tokens_per_second"] or 0.0, numbers["acceptance"], numbers["tau"] or 0.0,
        largest_share(sample.busy for sample in (*ours, *plain)),
        min(1.0, sum(s.by_depth[0][1] for s in ours if s.by_depth) / (sum(s.passes for s in ours) or 1)),
    )  # fmt: skip


def leaders(cells: Sequence[Cell]) -> dict[tuple[float, str], list[Cell]]:
    """Returns by (temperature, category) the fastest setting, then all that may be as fast. A single one has won."""
    places: dict[tuple[float, str], list[Cell]] = {}
    for cell in cells:
        places.setdefault((cell.temperature, cell.category), []).append(cell)
    return {
        place: [here[at] for at in fastest({at: cell.measured for at, cell in enumerate(here)})]
        for place, here in places.items()
    }


def shown_interval(speedup: Speedup) -> dict[str, float | None]:
    """Returns the interval as it is shown: none goes above what the tokens per pass allow."""
    return dict(zip(("low", "high"), speedup.interval or (None, None), strict=True))


def to_csv(cells: Sequence[Cell], where: Mapping[str, str]) -> str:
    """Writes a header and a row for each cell; an impossible speedup is left out. ``where``: device and the like."""
    noise = dict.fromkeys(("speedup", "low", "high"))
    out = io.StringIO()
    writer = csv.DictWriter(out, [*Cell.__dataclass_fields__, *where], lineterminator="\n")
    writer.writeheader()
    for cell in cells:
        known = shown_interval(cell.measured) if cell.measured.is_possible else noise
        texts = {name: escape_formula(text) for name, text in ({"category": cell.category} | {**where}).items()}
        writer.writerow(asdict(cell) | known | texts)
    return out.getvalue()


def markdown(cells: Sequence[Cell]) -> str:
    """Writes a table of speedups for each temperature: settings down, categories across, a certain winner in bold."""
    top, tables = leaders(cells), []
    for temperature in dict.fromkeys(c.temperature for c in cells):
        here = [c for c in cells if c.temperature == temperature]
        categories = list(dict.fromkeys(c.category for c in here))
        lines = []
        for method, gamma in dict.fromkeys((c.method, c.gamma) for c in here):
            row = {c.category: c for c in here if (c.method, c.gamma) == (method, gamma)}
            name = method if method == BASELINE else f"{method}, γ = {gamma}"
            lines.append([name, *(_cell_text(row[c], top[temperature, c] == [row[c]]) for c in categories)])
        tables.append(table([f"temperature {temperature:g}", *categories], lines))
    return "\n\n".join(tables)


def _cell_text(cell: Cell, is_winner: bool) -> str:
    text = "1" if cell.method == BASELINE else cell.measured.words
    return f"**{text}**" if is_winner else text
