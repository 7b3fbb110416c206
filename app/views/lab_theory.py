"""The visitor's last run as a point beside the theory: its α, γ, costs, measured and predicted speedup. Pure."""

import math

from app.controls import METHODS
from app.views.encode import encode, short
from app.views.summary import speedup
from engine.events import BUSY, CHEAPEST, CostModel
from engine.statistics import Statistics, statistics
from engine.theory import interpolate
from engine.trace import Trace

MOST_GAMMA = 16  # how far the pictures go
NOTHING = "No run to compare with yet. Run a prompt in the playground and come back."


def point(run: Trace | None, baseline: Trace | None, own: bool) -> str:
    """JSON for components.theory; what a run has not is null. ``own``: it is the visitor's, not the recorded one.

    ``gamma`` is the mean of the rounds that drafted.
    """
    if run is None or not run.rounds:
        return encode({"own": own, "words": NOTHING})
    numbers, costs = statistics(run), _usable(run.started.costs)
    drafted = [len(event.parents) for event in run.rounds if event.parents]
    found = {
        "own": own,
        "alpha": numbers.alpha and short(numbers.alpha.value),
        "gamma": short(sum(drafted) / len(drafted)) if drafted else None,
        "c": short(costs.c) if costs else None,
        "v": {str(width): short(cost) for width, cost in sorted(costs.v.items())} if costs else None,
        "measured": short(speedup(run, baseline)) if drafted else None,
        "predicted": short(numbers.predicted_speedup) if costs and drafted else None,
        "where": _where(run, costs, own),
    }
    return encode(found | {"words": _words(run, numbers, found, drafted, costs)})


def _usable(costs: CostModel | None) -> CostModel | None:
    """None for what a file may claim and no device has: steps that take no time, or negative time."""
    if costs is None or not costs.v or not (math.isfinite(costs.c) and costs.c >= 0):
        return None
    scoring = [interpolate(costs.v, width) for width in range(1, MOST_GAMMA + 2)]
    return costs if all(math.isfinite(cost) and cost > 0 for cost in scoring) else None


def _where(run: Trace, costs: CostModel | None, own: bool) -> str:
    if costs is None:
        return ""
    whose = "your last run" if own else "the recorded run"
    busy = ", while the machine was busy" if costs.spread > BUSY else ""
    if min(costs.v.values()) < CHEAPEST:
        busy += "; some widths came out cheaper than a single token, so the clock was not steady: take it with care"
    return f"in {whose}, on {run.started.device}, at {costs.context} tokens of context{busy}"


def _words(run: Trace, numbers: Statistics, found: dict, drafted: list[int], costs: CostModel | None) -> str:
    method = METHODS.get(run.started.config.get("method", ""), "").split(":")[0] or "unknown method"
    lead = "Your last run" if found["own"] else "No run of yours yet; this is the recorded run that the page opens with"
    said = [f"{lead}: {method} on {run.started.device}."]
    if numbers.alpha is None:
        said.append("It tested no draft, so it has no α.")
    else:
        kept, tested = numbers.counts["accepted"], numbers.counts["accepted"] + numbers.counts["rejected"]
        said.append(f"α = {numbers.alpha.value:.2f}: {kept} of {tested} tested drafts were kept.")
    if drafted:
        said.append(f"{len(drafted)} of {len(run.rounds)} rounds drafted, {found['gamma']:.1f} tokens each on average.")
    said.append("Its costs were not measured." if costs is None else f"c = {costs.c:.2f}.")
    return " ".join(said + _speedups(found))


def _speedups(found: dict) -> list[str]:
    measured, predicted = found["measured"], found["predicted"]
    said = []
    if measured is not None:
        said.append(f"Measured: {measured:.2f}× plain decoding.")
    elif found["gamma"] is not None:
        said.append("It has no whole baseline, so no speedup was measured.")
    if predicted is not None:
        said.append(f"Predicted from its rounds: {predicted:.2f}×.")
    return said
