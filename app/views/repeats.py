"""Summarises a run and its baseline measured several times: medians and their interval."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.views.tiles import Spread, machine, speedup
from engine.errors import quantity
from engine.trace.metrics import compute_metrics, others_share
from engine.trace.noise import NOISE, about_machine, median_interval
from engine.trace.trace import Trace

Pair = tuple[Trace, Trace]  # a run and the baseline measured right after it


@dataclass(frozen=True, slots=True)
class Medians:
    """The run and the baseline of median speed. ``how`` continues a sentence, ``words`` are one on how far the pairs
    lay apart. ``spread``: None with a single pair that can be."""

    run: Trace
    baseline: Trace
    how: str
    words: str
    spread: Spread | None


def medians(pairs: Sequence[Pair]) -> Medians:
    """Summarises ``pairs``: complete measurements, in order. Impossible ones count, too, because without them only the
    slower pairs would make the median."""
    possible = [_ratio(pair) for pair in pairs if speedup(*pair).is_possible]
    noise = len(pairs) - len(possible)
    runs, plains = ([pair[lane] for pair in pairs] for lane in (0, 1))
    run, plain = _middle(runs), _middle(plains)
    how = f"medians of {len(pairs)} runs each" if len(pairs) > 1 else "one run each"
    between = f"{_range(possible, '.2f')}×" if possible else NOISE
    if possible and noise:
        between += f" and {NOISE} ({quantity(noise, 'pair')} faster than can be)"
    words = (
        f"Measured {quantity(len(pairs), 'time')} in turn: {between} from pair to pair, "
        f"{_range(map(_speed, runs))} tokens/s with drafting and {_range(map(_speed, plains))} without."
    )
    if not machine(run, plain):
        words = f"{words} {about_machine(others_share(*(trace for pair in pairs for trace in pair)))}".rstrip()
    return Medians(run, plain, how, words, median_interval(_ratio((run, plain)), [*map(_ratio, pairs)]))


def _middle(traces: Sequence[Trace]) -> Trace:
    """Returns the trace of median speed, the slower of the middle two if there is an even number."""
    return sorted(traces, key=_speed)[(len(traces) - 1) // 2]


def _speed(trace: Trace) -> float:
    return compute_metrics(trace).tokens_per_second or 0.0


def _ratio(pair: Pair) -> float:
    return _speed(pair[0]) / _speed(pair[1])


def _range(values: Iterable[float], form: str = ".3g") -> str:
    values = [*values]
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low}–{high}"
