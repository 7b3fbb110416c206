"""Any α: drafts kept by a chance set by hand, in pieces of one plain run and one such run. See engine/lab/synthetic."""

import weakref
from collections.abc import Iterable, Mapping

from app.experiments.spots import Begun, Costs, Place, Spot, Wanted
from app.races import Report
from app.service import Work
from engine.config import RunConfig

PROMPT = "Tell me about dogs."  # any will do: only its costs are looked at


def pieces(config: RunConfig, wanted: Wanted, spots: Mapping[Place, Spot]) -> Iterable[Work]:
    """The costs first, then a turn at each place that ``spots`` lacks. Whoever reads the reports puts each Spot into
    ``spots``, so that the next turn there is added to it."""
    warmed = _Warmed()
    yield _costs(config, warmed)
    for place in wanted.missing(spots):
        earlier = spots[place].turns if place in spots else ()
        yield _turn(config, place, earlier, warmed)


class _Warmed:
    """Which engine has had its warm-up: between two pieces another visitor's pair may have taken its place."""

    def __init__(self):
        self._engine = lambda: None

    def __call__(self, engine, config: RunConfig, cancelled) -> None:
        from engine.lab.synthetic import warm

        if self._engine() is not engine:
            warm(engine, config, cancelled)
            self._engine = weakref.ref(engine)


def _costs(config: RunConfig, warmed: _Warmed) -> Work:
    def work(engine, cancelled):
        from engine.loading import device_name

        warmed(engine, config, cancelled)
        found = engine.costs(config.method)
        where = device_name(engine.device), engine.precision
        yield Report(Costs(*where, found.c, dict(found.v), found.context, found.step, found.spread))

    return work


def _turn(config: RunConfig, place: Place, earlier: tuple, warmed: _Warmed) -> Work:
    def work(engine, cancelled):
        from engine.lab.synthetic import point, turn

        yield Report(Begun(*place, len(earlier) + 1))  # first, for the time limit counts from a piece's first report
        warmed(engine, config, cancelled)
        made = turn(engine, config, *place, cancelled)
        if made is None:
            return
        turns = (*earlier, made)
        found = point(*place, turns, engine.costs(config.method))
        yield Report(Spot(*place, found.seen, found.tau, found.speedup, turns))

    return work
