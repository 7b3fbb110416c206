"""Measures points at an acceptance set by hand, one turn per unit of work (see engine.tools.bench.fixed_acceptance)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.lab.work_units import Points
from engine.config import RunConfig
from engine.tools.bench.sample import Point
from engine.trace.costs import CostModel
from engine.trace.noise import monotone_costs

PROMPT = "Tell me about dogs."  # only its costs count, so any prompt will do
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

    def missing(self, points: Mapping[AlphaGamma, Point]) -> list[AlphaGamma]:
        """Returns the turns still to be measured, every point once before any of them twice."""
        places = [(alpha, gamma) for gamma in self.gammas for alpha in self.alphas]
        turns = {place: len(points[place].turns) if place in points else 0 for place in places}
        return [place for repeat in range(self.repeats) for place in places if turns[place] <= repeat]


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


class TheoryPoints(Points):
    """The turns that a plan still needs, beside the points ``measured`` before, which the next turn there extends."""

    def __init__(self, engine, config: RunConfig, plan: PointPlan, measured: PointSet):
        from engine.runtime.engine import device_name

        self.engine, self.config, self.plan = engine, config, plan
        costs = DeviceCosts(device_name(engine.device), engine.precision, engine.costs(config.method))
        self.measured = replace(measured, costs=costs)

    def missing(self) -> Sequence[AlphaGamma]:
        return self.plan.missing(self.measured.points)

    def forget_noise(self) -> None:
        sound = {at: point for at, point in self.measured.points.items() if point.measured.is_possible}
        self.measured = replace(self.measured, points=sound)

    def warm(self, cancelled) -> None:
        from engine.tools.bench.fixed_acceptance import warm

        warm(self.engine, self.config, cancelled)

    def measure(self, point: AlphaGamma, cancelled) -> Iterator[tuple[str, float]]:
        from engine.tools.bench.fixed_acceptance import measure_turn
        from engine.tools.bench.fixed_acceptance import point as fastest

        earlier = self.measured.points[point].turns if point in self.measured.points else ()
        again = f", repeat {len(earlier) + 1} of {self.plan.repeats}" if self.plan.repeats > 1 else ""
        # First, because the time limit counts from here.
        yield f"α = {point[0]:g} with γ = {point[1]}{again}, compared with plain decoding", 0
        turn = measure_turn(self.engine, self.config, *point, len(earlier), cancelled)
        if turn is not None:
            points = {**self.measured.points, point: fastest(*point, (*earlier, turn))}
            self.measured = replace(self.measured, points=points)

    def size(self) -> tuple[int, int]:
        return self.plan.turns - len(self.missing()), self.plan.turns

    def result(self) -> PointSet:
        return self.measured
