"""Renders the baseline as a lane: when each of its rounds ended, and how many tokens it had by then.

It is drawn beside the run's own rounds on one time axis, as if both had started together.
"""

from itertools import accumulate

from app.views.safe_json import short
from app.views.totals import Totals
from engine.trace.metrics import Divergence, first_divergence
from engine.trace.trace import Trace


def lane(trace: Trace | None) -> dict | None:
    """Returns what ``so_far`` returns; a complete baseline also has ``ends`` and ``counts`` [rounds]: seconds from the
    first round's start to each round's end, and tokens by then."""
    if trace is None or not trace.rounds:
        return None
    known = so_far(Totals.from_trace(trace))
    if known is None or trace.finished is None:
        return known
    start = trace.rounds[0].start
    counts = list(accumulate(len(event.emitted) for event in trace.rounds))
    ends = [short(event.end - start) for event in trace.rounds]
    return known | {"tokens": counts[-1], "ends": ends, "counts": counts}


def so_far(baseline: Totals) -> dict | None:
    return {"tokens": baseline.tokens, "seconds": short(baseline.seconds)} if baseline.rounds else None


def note(run: Trace, baseline: Trace) -> str:
    """Says why the two texts are compared per token, or where they part; empty for equal texts."""
    divergence = first_divergence(run, baseline) if run.started.is_greedy else None
    lengths = f"{len(run.emitted)} and {len(baseline.emitted)} tokens"
    if not run.started.is_greedy:
        law = "" if run.started.is_lossy or run.started.server else " of the same distribution"
        return (
            f"Above temperature 0 the two texts are different samples{law}, here {lengths}. "
            "So speeds are compared per token."
        )
    differ = _parting(divergence)
    if len(run.emitted) != len(baseline.emitted):
        return f"The two texts have different lengths, {lengths}. So speeds are compared per token. {differ}".strip()
    return differ


def _parting(divergence: Divergence | None) -> str:
    return f"From token {divergence.position + 1} on the two texts differ." if divergence else ""
