"""Measures points at an acceptance set by hand, one turn per unit of work (see engine.tools.bench.fixed_acceptance)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.lab.theory.request import AlphaGamma, DeviceCosts, PointPlan, PointSet
from app.lab.work_units import Points
from engine.config import RunConfig

PROMPT = "Tell me about dogs."  # only its costs count, so any prompt will do


class TheoryPoints(Points):
    """The turns that a plan still needs, beside the points ``measured`` before, which the next turn there extends."""

    def __init__(self, engine, config: RunConfig, plan: PointPlan, measured: PointSet):
        from engine.runtime.engine import device_name

        self.engine, self.config, self.plan = engine, config, plan
        costs = DeviceCosts(device_name(engine.device), engine.precision, engine.costs(config.method))
        self.measured = replace(measured, costs=costs)

    def missing(self) -> Sequence[AlphaGamma]:
        return list(self.plan.missing(self.measured.points))

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
