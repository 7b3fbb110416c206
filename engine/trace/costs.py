"""Describes the measured costs of a run's device, which its trace holds. Imports no torch."""

from dataclasses import dataclass, field

BUSY = 0.2  # spread of a plain step above which its costs were measured on a busy machine
CHEAPEST = 0.9  # a v(W) below this is a timing error: no pass is much cheaper than a plain step


@dataclass(frozen=True, slots=True)
class CostModel:
    """Measured costs on this device: ``c`` = one draft step ÷ one plain target step (0 where drafting is free),
    ``v[W]`` = scoring W tokens at once ÷ scoring one, at ``context`` tokens; ``step`` is one plain step in seconds.
    ``spread``: median ÷ minimum of that step − 1, large when other programs kept the machine busy. ``draft_costs``: c
    of each drafter by its method, where several compete."""

    c: float
    v: dict[int, float]
    context: int
    step: float
    spread: float = 0.0
    draft_costs: dict[str, float] = field(default_factory=dict)

    def draft_cost(self, drafter: str = "") -> float:
        """Returns c of a round's drafter."""
        return self.draft_costs.get(drafter, self.c)

    @property
    def steady(self) -> bool:
        """Whether they describe the device rather than other programs that ran during the calibration."""
        return self.spread <= BUSY and min(self.v.values(), default=1.0) >= CHEAPEST
