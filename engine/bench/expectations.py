"""Sets the figures of `make bench-gpu` beside those expected in assets/data/benchmarks/README.md.

A figure is missed if it is on the wrong side of its bound. The bounds were written before the first run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.bench.metrics import table

BANDWIDTH_SHARE = 0.7  # of a plain copy's bytes a second, by a plain step
SMALL_MODEL_RATE = 1_000  # tokens/s of the 135M model, which waits for kernels to be launched
H200_COPY = 4.0e12  # bytes a second
MOST_V5, MOST_DRAFT_C, MOST_HEAD_C = 1.05, 0.10, 0.05
ALPHA, LEAST_SPEEDUP, LEAST_EFFICIENCY = 0.8, 2.4, 0.9
WEIGHTS_DOMINATE = ("1.5B", "8B", "32B")
DRAFTED = "8B"  # the shape whose drafts have expectations


@dataclass(frozen=True)
class Figure:
    """``at_least``: whether ``bound`` is the smallest or the largest value expected; ``form``: as numbers are shown."""

    name: str
    measured: float
    bound: float
    form: str
    at_least: bool = True

    @property
    def missed(self) -> bool:
        return not (self.measured >= self.bound if self.at_least else self.measured <= self.bound)

    def row(self) -> list[str]:
        expected = f"at {'least' if self.at_least else 'most'} {self.bound:{self.form}}"
        return [self.name, f"{self.measured:{self.form}}", expected, "missed" if self.missed else "met"]


def report(device: str, ours: Sequence[Mapping]) -> str:
    """The table, and a sentence that names the missed figures; empty where no figure has an expectation. ``ours``:
    parts as `random_models.measure` returns them."""
    compared = [figure for part in ours for figure in figures(device, part)]
    if not compared:
        return ""
    missed = [figure.name for figure in compared if figure.missed]
    verdict = f"Missed: {'; '.join(missed)}." if missed else "None was missed."
    rows = table(["figure", "measured", "expected", ""], [figure.row() for figure in compared])
    return f"Beside the expectations in assets/data/benchmarks/README.md:\n\n{rows}\n\n{verdict}"


def figures(device: str, part: Mapping) -> Iterator[Figure]:
    """The figures of one shape and context that have an expectation."""
    shape, place = part["shape"], f"{part['shape']} at {part['context']:,}"
    if shape == "135M":
        yield Figure(f"{place}: tokens/s", part["tokens_per_second"], SMALL_MODEL_RATE, ",.0f")
    if shape not in WEIGHTS_DOMINATE:
        return
    if "H200" in device:
        yield Figure(f"{place}: copy, TB/s", part["copy_bandwidth"] / 1e12, H200_COPY / 1e12, ".2f")
    rate = expected_rate(part["copy_bandwidth"], part["bytes_a_step"])
    yield Figure(f"{place}: tokens/s", part["tokens_per_second"], rate, ",.0f")
    yield Figure(f"{place}: v(5)", part["v"]["5"], MOST_V5, ".3f", at_least=False)
    if shape == DRAFTED:
        for method, draft in part["drafts"].items():
            yield from _drafting(f"{place}, {method}", draft, MOST_HEAD_C if method == "eagle" else MOST_DRAFT_C)


def expected_rate(copy_bandwidth: float, bytes_a_step: float) -> float:
    """Tokens a second of plain decoding."""
    return BANDWIDTH_SHARE * copy_bandwidth / bytes_a_step


def _drafting(place: str, draft: Mapping, most: float) -> Iterator[Figure]:
    yield Figure(f"{place}: c", draft["c"], most, ".3f", at_least=False)
    for point in draft["synthetic"]:
        if point["alpha"] == ALPHA:
            yield Figure(f"{place}: speedup at α = {ALPHA:g}", point["speedup"], LEAST_SPEEDUP, ".2f")
            yield Figure(f"{place}: efficiency at α = {ALPHA:g}", point["efficiency"], LEAST_EFFICIENCY, ".2f")
