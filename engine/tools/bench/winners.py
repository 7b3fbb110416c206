"""Decides which setting is certainly the fastest, and where drafting stops paying: as measured, and by the cost model.

Needs neither torch nor numpy.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from engine.trace.noise import Speedup
from engine.trace.speedup_model import expected_tokens, interpolate

Key = TypeVar("Key", bound=Hashable)
_WIDEST = 17  # tokens of one user in a pass


def fastest(speedups: Mapping[Key, Speedup]) -> list[Key]:
    """Returns the settings that no other certainly beats, highest lower bound first; a single one is a winner.
    Impossible ones come last, because they may really be as fast. Empty where all are impossible."""
    if not any(speedup.is_possible for speedup in speedups.values()):
        return []
    order = sorted(speedups, key=lambda key: (speedups[key].is_possible, speedups[key].ends[0]), reverse=True)
    return [key for key in order if not any(other.beats(speedups[key]) for other in speedups.values())]


def winner(speedups: Mapping[Key, Speedup]) -> Key | None:
    """Returns the setting that is certainly the fastest of several; None if none is."""
    leaders = fastest(speedups)
    return leaders[0] if len(leaders) == 1 and len(speedups) > 1 else None


def break_even_bracket(points: Iterable[tuple[float, Speedup]]) -> tuple[float | None, float | None]:
    """Finds between which places drafting stops paying. ``points``: (place, speedup) from where it should pay to where
    it should not. Returns the last place that is certainly faster than plain decoding, and the first after it that is
    certainly slower; None for one that does not exist.

    >>> break_even_bracket([(1, Speedup(1.5, 1.4, 1.6)), (4, Speedup(1.0, 0.9, 1.1)), (8, Speedup(0.8, 0.7, 0.9))])
    (1, 8)
    """
    places = [(place, speedup.tone) for place, speedup in points]
    last = max((i for i, (_, tone) in enumerate(places) if tone == "faster"), default=-1)
    slow = next((place for place, tone in places[last + 1 :] if tone == "slower"), None)
    return places[last][0] if last >= 0 else None, slow


def costs_for_all(c: float, v: Mapping[int, float], users: int, steps: int) -> tuple[float, dict[int, float]]:
    """Returns c and v of a round in which each of the ``users`` drafts as many: a draft is ``steps`` draft steps, v(W)
    scores W tokens of each. A cost of 1 is a plain pass over all of them.

    >>> costs_for_all(0.1, {1: 1.0, 8: 1.0, 16: 2.0}, 8, steps=1)[1][2]
    2.0
    """
    plain = interpolate(v, users)
    return c * steps / plain, {width: interpolate(v, width * users) / plain for width in range(1, _WIDEST + 1)}


def break_even(gamma: int, c: float, v: Mapping[int, float]) -> float | None:
    """Returns the smallest α from which γ drafts a round are at least as fast as none; None if no α does."""
    cost = gamma * c + interpolate(v, gamma + 1)
    if cost <= 1.0:
        return 0.0
    if cost > gamma + 1.0:
        return None
    low, high = 0.0, 1.0  # expected tokens grow with α: 1 … γ + 1
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, gamma) < cost else (low, middle)
    return high
