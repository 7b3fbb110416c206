"""Measures points at an acceptance set by hand, one turn per unit of work (see engine.bench.fixed_acceptance)."""

from collections.abc import Iterable, Mapping

from app.jobs.runs import Work
from app.jobs.updates import Report
from app.lab.theory.request import AlphaGamma, DeviceCosts, Point, PointPlan, PointStarted
from app.lab.work_units import WarmUpOnce
from engine.config import RunConfig

PROMPT = "Tell me about dogs."  # only its costs count, so any prompt will do


def work_units(config: RunConfig, plan: PointPlan, points: Mapping[AlphaGamma, Point]) -> Iterable[Work]:
    """Yields one unit that measures the costs, then one per turn that ``points`` lacks.

    The caller adds each reported Point to ``points``, so that the next turn there extends it.
    """
    warm_up = WarmUpOnce()
    yield _costs(config, warm_up)
    for place in plan.missing(points):
        earlier = points[place].turns if place in points else ()
        yield _turn(config, place, earlier, warm_up)


def _costs(config: RunConfig, warm_up: WarmUpOnce) -> Work:
    def work(engine, cancelled):
        from engine.bench.fixed_acceptance import warm
        from engine.runtime.engine import device_name

        warm_up(engine, lambda: warm(engine, config, cancelled))
        yield Report(DeviceCosts(device_name(engine.device), engine.precision, engine.costs(config.method)))

    return work


def _turn(config: RunConfig, place: AlphaGamma, earlier: tuple, warm_up: WarmUpOnce) -> Work:
    def work(engine, cancelled):
        from engine.bench.fixed_acceptance import measure_turn, point, warm

        yield Report(PointStarted(*place, len(earlier) + 1))  # first, because the time limit counts from here
        warm_up(engine, lambda: warm(engine, config, cancelled))
        latest = measure_turn(engine, config, *place, cancelled)
        if latest is None:
            return
        yield Report(point(*place, (*earlier, latest)))

    return work
