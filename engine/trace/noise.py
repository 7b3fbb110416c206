"""Decides which conclusions a measurement supports: the largest speedup, its spread, possible costs.

Everything that shows a speedup asks here; a winner or a crossing point is decided by `tools/bench/winners.py`. Needs
neither torch nor numpy.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import stdev, variance
from typing import Literal, TypeGuard

from engine.errors import and_list, percent
from engine.trace.costs import BUSY, CHEAPEST, CostModel
from engine.trace.events import Round

Tone = Literal["noise", "level", "faster", "slower"]

ONE_RUN = 0.05  # one run each cannot tell a smaller difference from noise
STEADIEST = 0.02  # no clock tells two passes apart that differ by less
RESAMPLES = 2000  # draws of the prompts for a benchmark's bootstrap interval
FEWEST_PROMPTS = 12  # for a bootstrap; fewer get `median_interval`
CROWDED = 0.15  # share of the cores from which other programs distort a measurement
UNSTEADY = 1.25 * BUSY  # spread of costs whose plain step was slowed down each time it was timed
Z95 = 1.959964
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # for 1, 2, … degrees of freedom
NOISE = "noise"  # shown instead of an impossible speedup


@dataclass(frozen=True, slots=True)
class Speedup:
    """Measured tokens per second ÷ plain decoding's. ``low`` and ``high``: its 95 % interval, None of a single
    measurement; ``ceiling``: the largest that it can be; ``busy``: the largest share of the cores that other programs
    took meanwhile, None where it was not read."""

    value: float
    low: float | None = None
    high: float | None = None
    ceiling: float = math.inf
    busy: float | None = None

    @property
    def is_possible(self) -> bool:
        return self.value <= self.ceiling

    @property
    def possible_value(self) -> float | None:
        """The value; None if it is impossible."""
        return self.value if self.is_possible else None

    @property
    def tone(self) -> Tone:
        """ "noise" if it is impossible, "level" if it may lie on either side of 1×."""
        if not self.is_possible:
            return "noise"
        low, high = self.ends
        return "level" if low <= 1 <= high else "faster" if low > 1 else "slower"

    @property
    def ends(self) -> tuple[float, float]:
        """(low, high), of which high stays below the ceiling; `one_run_error` gives them for a single measurement.

        >>> [round(end, 2) for end in Speedup(1.05).ends], [round(end, 2) for end in Speedup(1.05, busy=0.4).ends]
        ([1.0, 1.1], [0.38, 2.92])
        """
        low, high = self.low, self.high
        if low is None or high is None:
            error = one_run_error(self.busy)
            low, high = self.value * math.exp(-error), self.value * math.exp(error)
        return low, min(high, max(self.value, self.ceiling))

    @property
    def interval(self) -> tuple[float, float] | None:
        """`ends`, where it was measured more than once."""
        return None if self.low is None else self.ends

    @property
    def words(self) -> str:
        """1.43×, with its interval if it has one; "noise" for an impossible value.

        >>> Speedup(1.428, 1.3, 1.55).words, Speedup(2.21, ceiling=1.6).words
        ('1.43× (1.30–1.55)', 'noise')
        """
        if not self.is_possible:
            return NOISE
        ends = " ({:.2f}–{:.2f})".format(*self.interval) if self.interval else ""
        return f"{self.value:.2f}×{ends}"

    def excludes(self, prediction: float) -> bool:
        """Returns whether a prediction lies outside the interval; False for a single or impossible measurement."""
        low, high = self.ends
        return self.is_possible and self.low is not None and not low <= prediction <= high

    def beats(self, other: "Speedup") -> bool:
        """Returns whether this is certainly the larger one; False for single measurements. An impossible value counts
        as its ceiling."""
        high = other.high if other.is_possible else other.ceiling
        return self.is_possible and self.low is not None and high is not None and self.low > high


PLAIN = Speedup(1.0, 1.0, 1.0)


def one_run_error(busy: float | None) -> float:
    """Returns the error of the logarithm of a single speedup, on a quiet machine or where other programs took ``busy``
    of the cores from one of the two runs. They lengthen it by more than that share, because threads wait for the
    slowest."""
    return max(ONE_RUN, -2 * math.log(1 - min(busy or 0.0, 0.95)))


def ceiling(tau: float, costs: CostModel | None = None) -> float:
    """Returns the largest speedup of a run that emitted ``tau`` tokens per pass: τ, because a pass that scores drafts
    takes as long as a plain one, and some per cent more where v dips below 1 or within the spread of the costs."""
    if costs is None:
        return tau / CHEAPEST
    costs = monotone_costs(costs)
    cheapest = max(CHEAPEST, min(1.0, *costs.v.values()))
    slack = min(max(costs.spread, STEADIEST), 1 / CHEAPEST - 1)
    return tau * max(1 / cheapest, 1 + slack)


# ── spread of few repeats, and within one run ──


def median_interval(value: float, ratios: Sequence[float]) -> tuple[float, float] | None:
    """Returns the 95 % interval of ``value``, in the middle of up to a dozen repeated ``ratios``: by Student's t of
    their logarithms, never closer than a clock can tell two passes apart. None for fewer than two."""
    if len(ratios) < 2:
        return None
    t = T95[min(len(ratios) - 1, len(T95)) - 1]
    error = max(STEADIEST, t * stdev(map(math.log, ratios)) / math.sqrt(len(ratios)))
    return value * math.exp(-error), value * math.exp(error)


def single_speedup(
    value: float, tau: float, costs: CostModel | None, *runs: Sequence[Round], busy: float | None = None
) -> Speedup:
    """Returns a speedup measured once, with the interval that the times of its rounds suggest, never closer than any
    single measurement's. ``runs``: the rounds of the run and of its baseline; ``busy``: as in `Speedup`."""
    error = max(one_run_error(busy), Z95 * math.hypot(*(rounds_error(rounds) for rounds in runs)))
    return Speedup(value, value * math.exp(-error), value * math.exp(error), ceiling(tau, costs), busy)


def rounds_error(rounds: Sequence[Round]) -> float:
    """Returns the standard error of the rounds' total time as a share of it, from rounds of the same shape, whose
    times differ by noise alone."""
    alike: dict[tuple, list[float]] = defaultdict(list)
    for each in rounds:
        alike[len(each.parents), each.draft_steps, each.drafter].append(each.end - each.start)
    several = [times for times in alike.values() if len(times) > 1]
    total = sum(map(sum, several))
    return math.sqrt(sum(len(times) * variance(times) for times in several)) / total if total else 0.0


# ── costs ──


def monotone_costs(costs: CostModel) -> CostModel:
    """Removes dips that are timing noise from the costs.

    A wider pass that was measured cheaper within the spread is pooled with the narrower one (isotonic regression by
    pooling adjacent violators, Ayer 1955), as is one that is cheaper by more than any kernel is. A width that is
    cheaper beyond the spread stays. v(1) is 1, so that step and c follow it.
    """
    widths, spread = sorted(costs.v), costs.spread if costs.steady else max(costs.spread, UNSTEADY)
    blocks: list[list[float]] = []  # [mean, widths]
    for width in widths:
        blocks.append([costs.v[width], 1])
        while len(blocks) > 1 and is_dip(blocks[-2][0], blocks[-1][0], spread):
            (low, few), (high, many) = blocks[-1], blocks.pop(-2)
            blocks[-1] = [(low * few + high * many) / (few + many), few + many]
    values = [mean for mean, count in blocks for _ in range(int(count))]
    plain = values[0] if widths and widths[0] == 1 else 1.0
    if values == [costs.v[width] for width in widths] and plain == 1.0:
        return costs
    v = {width: value / plain for width, value in zip(widths, values, strict=True)}
    drafts = {name: c / plain for name, c in costs.draft_costs.items()}
    return replace(costs, c=costs.c / plain, v=v, step=costs.step * plain, spread=spread, draft_costs=drafts)


def is_dip(narrower: float, wider: float, spread: float) -> bool:
    """Returns whether a wider pass is cheaper than a narrower one by noise: within the spread, or by too much."""
    return narrower > wider and not max(spread, STEADIEST) < narrower / wider - 1 <= 1 / CHEAPEST - 1


def has_dips(v: Mapping[int, float]) -> bool:
    """Returns whether any width was measured cheaper than a narrower one."""
    costs = [v[width] for width in sorted(v)]
    return any(wider < narrower for narrower, wider in pairwise(costs))


def about_costs(costs: CostModel) -> str:
    """Returns a sentence on widths that cost the same within the spread, or less than narrower ones; else empty."""
    widths = sorted(costs.v)
    pairs = list(pairwise(widths))
    level = sorted({width for a, b in pairs if costs.v[a] == costs.v[b] for width in (a, b)})
    words = f"Passes of {and_list(level)} tokens cannot be told apart here." if level else ""
    if cheaper := [b for a, b in pairs if costs.v[b] < costs.v[a]]:
        words += f" Measured again, {and_list(cheaper)} tokens at once really are quicker than fewer."
    return words.strip()


# ── other programs ──


def is_crowded(share: float | None) -> TypeGuard[float]:
    return share is not None and share >= CROWDED


def largest_share(shares: Iterable[float | None]) -> float | None:
    """Returns the largest share of the cores that other programs took; None of an unknown one, and for none known."""
    return max((share for share in shares if share is not None), default=None)


def largest_busy_share(extras: Iterable[Mapping]) -> float | None:
    """Returns the largest share during some runs. ``extras``: from each run's end, perhaps in a strange file."""
    shares = (extra.get("busy") for extra in extras)
    return largest_share(share for share in shares if isinstance(share, int | float))


def about_machine(share: float | None) -> str:
    """Returns a sentence on a busy machine; empty for a quiet one."""
    if not is_crowded(share):
        return ""
    return f"Other programs took {percent(min(share, 1.0))} of the processor meanwhile: speeds may be wrong."
