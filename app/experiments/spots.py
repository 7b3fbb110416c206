"""What a measurement with α set by hand asks for and finds out: numbers only, no engine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Measured:
    """Everything found so far with one pair, method and length of run; what a visitor keeps between two presses of
    Run."""

    pair: str = ""
    method: str = ""
    tokens: int = 0
    costs: Costs | None = None
    spots: Mapping[Place, Spot] = field(default_factory=dict)

    @property
    def points(self) -> list[Spot]:
        """By γ, then α."""
        return sorted(self.spots.values(), key=lambda spot: (spot.gamma, spot.alpha))
