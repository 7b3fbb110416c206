"""Describes the measured costs of a run's device, which its trace holds. Imports no torch."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.trace.speedup_model import interpolate

BUSY = 0.2  # spread of a plain step above which its costs were measured on a busy machine
CHEAPEST = 0.9  # a v(W) below this is a timing error: no pass is much cheaper than a plain step


@dataclass(frozen=True, slots=True)
class CostModel:
    """Measured costs on this device: ``c`` = one draft step ÷ one plain target step (0 where drafting is free),
    ``v[W]`` = scoring W tokens at once ÷ scoring one, at ``context`` tokens; ``step`` is one plain step in seconds.
    ``spread``: median ÷ minimum of that step − 1, large when other programs kept the machine busy. ``draft_costs``: c
    of each drafter by its method, where several compete. ``paces``: the time that rounds of a drafter took in earlier
    runs ÷ what c and v promise; 1 where it is not known."""

    c: float
    v: dict[int, float]
    context: int
    step: float
    spread: float = 0.0
    draft_costs: dict[str, float] = field(default_factory=dict)
    paces: dict[str, float] = field(default_factory=dict)

    def draft_cost(self, drafter: str = "") -> float:
        """Returns c of a round's drafter."""
        return self.draft_costs.get(drafter, self.c)

    def costs_of(self, drafter: str) -> tuple[float, dict[int, float]]:
        """Returns c and v of rounds with drafts of this drafter, as the clock has corrected them. No pace takes a pass
        below a plain step; otherwise a prediction could be above the tokens a round."""
        pace = self.paces.get(drafter, 1.0)
        return pace * self.draft_cost(drafter), {
            w: max(pace * x, min(x, 1.0)) if w > 1 else x for w, x in self.v.items()
        }

    def round_cost(self, drafter: str, steps: int, drafts: int) -> float:
        """Returns the time of a round ÷ a plain step's, by its drafter, draft steps and drafts."""
        c, v = self.costs_of(drafter)
        return steps * c + interpolate(v, drafts + 1)

    def predict(self, rounds: Iterable[tuple[int, int | None, int, str]]) -> float:
        """Returns the speedup of (emitted, draft steps, drafts, drafter) of rounds: Σ emitted ÷ Σ cost."""
        each = [(emitted, self.round_cost(by, steps or 0, drafts)) for emitted, steps, drafts, by in rounds]
        return sum(emitted for emitted, _ in each) / sum(cost for _, cost in each)

    @property
    def steady(self) -> bool:
        """Whether they describe the device rather than other programs that ran during the calibration."""
        return self.spread <= BUSY and min(self.v.values(), default=1.0) >= CHEAPEST
