"""Summarises a run and its baseline measured several times: medians and their interval."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.views.tiles import Spread, machine, speedup
from engine.errors import quantity
from engine.trace.metrics import compute_metrics, others_share
from engine.trace.noise import about_machine, median_interval
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
    """Summarises ``pairs``: complete measurements, in order. Impossible ones do not count where others are possible."""
    possible = [pair for pair in pairs if speedup(*pair).is_possible] or pairs
    noise = len(pairs) - len(possible)
    runs, plains = ([pair[lane] for pair in possible] for lane in (0, 1))
    run, plain = _middle(runs), _middle(plains)
    ratios = [_speed(ours) / _speed(theirs) for ours, theirs in possible]
    how = f"medians of {len(possible)} runs each" if len(possible) > 1 else "one run each"
    words = (
        f"Measured {quantity(len(pairs), 'time')} in turn: {_range(ratios, '.2f')}× from pair to pair, "
        f"{_range(map(_speed, runs))} tokens/s with drafting and {_range(map(_speed, plains))} without."
    )
    if noise:
        are, do = ("are", "do") if noise > 1 else ("is", "does")
        words += f" {noise} of the pairs {are} impossibly fast and {do} not count."
    if not machine(run, plain):
        words = f"{words} {about_machine(others_share(*(trace for pair in pairs for trace in pair)))}".rstrip()
    return Medians(run, plain, how, words, median_interval(_speed(run) / _speed(plain), ratios))


def _middle(traces: Sequence[Trace]) -> Trace:
    """Returns the trace of median speed; of an even number the slower one in the middle."""
    return sorted(traces, key=_speed)[(len(traces) - 1) // 2]


def _speed(trace: Trace) -> float:
    return compute_metrics(trace).tokens_per_second or 0.0


def _range(values: Iterable[float], form: str = ".3g") -> str:
    values = [*values]
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low}–{high}"
