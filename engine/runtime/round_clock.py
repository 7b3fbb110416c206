"""Learns from finished runs how long the rounds of each drafter take on the clock, against what c and v promise.

c and v are times of single passes. A round also looks drafts up, decides on them and records them, and its passes run
in turn with others, so it takes longer, and not by the same share for every drafter. A run reads the paces once, before
its first round. So its choices depend on committed text, finished rounds and costs that its trace holds, and with
those a seed decides everything. A pace is only replaced when it has really moved, so that a seed soon repeats its text.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from engine.trace.costs import CostModel
from engine.trace.events import Round
from engine.trace.noise import is_crowded

_MEMORY = 48  # rounds of each drafter that count
FEWEST = 8  # rounds, of a drafter and of plain ones, before anything is corrected
_SLOWEST = 1.6  # a drafter's rounds count as this much slower than promised at most, and as much faster
_MOVED = 0.04  # share by which a pace has to move


class RoundClock:
    """``paces``: as in `CostModel`. Greedy runs and others each have a clock, because drawing takes time, too."""

    def __init__(self):
        self.paces: dict[str, float] = {}
        self._ratios: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_MEMORY))

    def learn(self, rounds: Iterable[Round], costs: CostModel, method: str, busy: float | None) -> None:
        """Takes the rounds of a run that is over; not where other programs kept the machine busy, or that is unknown.
        ``method``: who drafted where a round does not say."""
        if busy is None or is_crowded(busy):
            return
        promises = replace(costs, paces={})
        for each in rounds:
            if each.rows == 1 and each.timings and not each.reading:
                is_plain = not each.parents and not each.draft_steps
                drafter = "" if is_plain else each.drafter or method
                promised = promises.round_cost(drafter, each.draft_steps or 0, len(each.parents))
                self._ratios[drafter].append((each.end - each.start) / promised / costs.step)
        plain = self._ratios[""]
        for name, ratios in self._ratios.items():
            if name and min(len(ratios), len(plain)) >= FEWEST:
                pace = min(max(median(ratios) / median(plain), 1 / _SLOWEST), _SLOWEST)
                if abs(pace / self.paces.get(name, 1.0) - 1) > _MOVED:
                    self.paces[name] = pace
