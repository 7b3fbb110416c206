"""Any α: drafts kept by a chance set by hand, in pieces of one plain run and one such run. See engine/lab/synthetic."""

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.races import Report
from app.service import Work
from engine.config import RunConfig

PROMPT = "Tell me about dogs."  # any will do: only its costs are looked at
Place = tuple[float, int]  # α, γ


@dataclass(frozen=True)
class Costs:
    """What the method costs on this device, as engine.events.CostModel has it, and where that was measured."""

    device: str
    precision: str
    c: float
    v: Mapping[int, float]
    context: int
    step: float
    spread: float


@dataclass(frozen=True)
class Begun:
    """A turn begins: the ``repeat``-th at this place, counted from 1."""

    alpha: float
    gamma: int
    repeat: int


@dataclass(frozen=True)
class Spot:
    """What the turns at one place have come to. ``seen``: α as counted, None where no draft was tested; ``tau``: tokens
    a target pass; ``turns`` are the engine's own records, for later ones to be added."""

    alpha: float
    gamma: int
    seen: float | None
    tau: float
    speedup: float
    turns: tuple

    @property
    def place(self) -> Place:
        return self.alpha, self.gamma


@dataclass(frozen=True)
class Wanted:
    """``alphas`` × ``gammas``, each ``repeats`` times."""

    alphas: tuple[float, ...]
    gammas: tuple[int, ...]
    repeats: int = 1

    @property
    def turns(self) -> int:
        return len(self.alphas) * len(self.gammas) * self.repeats

    def missing(self, spots: Mapping[Place, Spot]) -> Iterator[Place]:
        """What is still to be measured, every place once before any of them twice. Asked anew after each: ``spots``
        grows meanwhile."""
        for repeat in range(self.repeats):
            for gamma in self.gammas:
                for alpha in self.alphas:
                    if len(spots[alpha, gamma].turns if (alpha, gamma) in spots else ()) <= repeat:
                        yield alpha, gamma

    def left(self, spots: Mapping[Place, Spot]) -> int:
        return sum(1 for _ in self.missing(spots))


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
