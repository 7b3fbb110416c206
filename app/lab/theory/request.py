"""Describes points measured at an acceptance set by hand: the plan, each point, and the set of them. No engine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from engine.tools.bench.sample import Point
from engine.trace.costs import CostModel
from engine.trace.noise import monotone_costs

AlphaGamma = tuple[float, int]


@dataclass(frozen=True)
class DeviceCosts:
    """A method's costs, and the device and precision they were measured with."""

    device: str
    precision: str
    model: CostModel

    @property
    def without_noise(self) -> CostModel:
        return monotone_costs(self.model)


@dataclass(frozen=True)
class PointPlan:
    """``alphas`` × ``gammas``, each ``repeats`` times."""

    alphas: tuple[float, ...]
    gammas: tuple[int, ...]
    repeats: int = 1

    @property
    def turns(self) -> int:
        return len(self.alphas) * len(self.gammas) * self.repeats

    def missing(self, points: Mapping[AlphaGamma, Point]) -> Iterator[AlphaGamma]:
        """Yields the turns still to be measured, every point once before any of them twice."""
        for repeat in range(self.repeats):
            for gamma in self.gammas:
                for alpha in self.alphas:
                    if len(points[alpha, gamma].turns if (alpha, gamma) in points else ()) <= repeat:
                        yield alpha, gamma


@dataclass(frozen=True)
class PointSet:
    """Everything measured with one pair, method and length of run. Another Run with these settings extends it."""

    pair: str = ""
    method: str = ""
    tokens: int = 0
    costs: DeviceCosts | None = None
    points: Mapping[AlphaGamma, Point] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def by_gamma(self) -> list[Point]:
        """The points by γ, then by α."""
        return sorted(self.points.values(), key=lambda point: (point.gamma, point.alpha))
