"""Summarises a run and its baseline measured several times: medians and spread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.views.tiles import Spread, speedup
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

Pair = tuple[Trace, Trace]  # a run and the baseline measured right after it


@dataclass(frozen=True, slots=True)
class Medians:
    """The run and the baseline of median speed. ``how`` continues a sentence, ``words`` are one on the spread."""

    run: Trace
    baseline: Trace
    how: str
    words: str
    spread: Spread


def medians(pairs: Sequence[Pair]) -> Medians:
    """``pairs``: an odd number of complete measurements, in order."""
    runs, plains = ([pair[lane] for pair in pairs] for lane in (0, 1))
    ratios = [speedup(run, plain).value for run, plain in pairs]
    how = f"medians of {len(pairs)} runs each"
    words = (
        f"Measured {len(pairs)} times in turn: {min(ratios):.2f}–{max(ratios):.2f}× from pair to pair, "
        f"{_range(map(_speed, runs))} tokens/s with drafting and {_range(map(_speed, plains))} without."
    )
    return Medians(_middle(runs, _speed), _middle(plains, _speed), how, words, (min(ratios), max(ratios)))


def _middle(traces: Sequence[Trace], key: Callable[[Trace], float]) -> Trace:
    return sorted(traces, key=key)[len(traces) // 2]


def _speed(trace: Trace) -> float:
    return compute_metrics(trace).tokens_per_second or 0.0


def _range(values) -> str:
    values = list(values)
    return f"{min(values):.3g}–{max(values):.3g}"
