"""Renders the theory tab: a run and measured points beside the curves, the tables and the files of the points."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from app.form import METHOD_LABELS
from app.lab.theory.request import DeviceCosts, Point, PointSet
from app.views.safe_json import encode, short
from app.views.table import BEST, csv_text, empty, sheet
from app.views.tiles import speedup
from engine.trace.events import BUSY, CHEAPEST, CostModel
from engine.trace.metrics import RunMetrics, compute_metrics
from engine.trace.speedup_model import break_even, expected_tokens, idealised_speedup, interpolate
from engine.trace.trace import Trace

MOST_GAMMA = 16  # on the charts' γ axis
NO_RUN = "No run to compare with yet. Run a prompt in the playground and come back."
FAR = 1.3  # measured ÷ predicted, or its inverse, from which a point is called noisy
NOISY = (
    " Some points are far from their curve. Short runs vary, and this machine may have been busy. "
    "Raise the repeats or the tokens of a run."
)
COLUMNS = (
    "pair", "method", "max_new_tokens", "device", "precision", "alpha", "gamma", "repeats", "alpha_seen", "tau",
    "expected_tau", "speedup", "predicted", "measured_over_predicted",
)  # fmt: skip


# ── the curves' value ──


def curves(run: Trace | None, baseline: Trace | None, own: bool, measured: PointSet, gammas: Sequence[int] = ()) -> str:
    """Returns JSON for the theory component: a run's point, and under "here" the points measured on this machine.

    ``own``: the run is the visitor's, not the recorded one. ``gammas``: draft lengths whose curve is drawn before
    they have points.
    """
    return encode(_run_point(run, baseline, own) | {"here": _here(measured, gammas)})


def _run_point(run: Trace | None, baseline: Trace | None, own: bool) -> dict[str, Any]:
    """A run's α, γ, costs and speedups; null where the run has none. γ is the mean of the rounds that drafted."""
    if run is None or not run.rounds:
        return {"own": own, "words": NO_RUN}
    numbers, costs = compute_metrics(run), _usable(run.started.costs)
    drafted = [len(event.parents) for event in run.rounds if event.parents]
    point = {
        "own": own,
        "alpha": numbers.alpha and short(numbers.alpha.value),
        "gamma": short(sum(drafted) / len(drafted)) if drafted else None,
        **_costs(costs),
        "measured": short(speedup(run, baseline)) if drafted else None,
        "predicted": short(numbers.predicted_speedup) if costs and drafted else None,
        "where": _where("in your last run" if own else "in the recorded run", run.started.device, costs),
    }
    return point | {"words": _words(run, numbers, point, drafted, costs)}


def _here(measured: PointSet, gammas: Sequence[int]) -> dict[str, Any] | None:
    if measured.costs is None:
        return None
    costs, points = _usable(measured.costs.model), measured.ordered
    return {
        **_costs(costs),
        "where": _conditions(measured.costs),
        "gammas": sorted({*gammas, *(point.gamma for point in points)}),
        "points": [[point.alpha, point.gamma, short(point.speedup)] for point in points],
    }


def _costs(costs: CostModel | None) -> dict[str, Any]:
    if costs is None:
        return {"c": None, "v": None}
    return {"c": short(costs.c), "v": {str(width): short(cost) for width, cost in sorted(costs.v.items())}}


def _usable(costs: CostModel | None) -> CostModel | None:
    """None for costs that no device has, such as a file may claim: steps that take no time, or negative time."""
    if costs is None or not costs.v or not (math.isfinite(costs.c) and costs.c >= 0):
        return None
    scoring = [interpolate(costs.v, width) for width in range(1, MOST_GAMMA + 2)]
    return costs if all(math.isfinite(cost) and cost > 0 for cost in scoring) else None


def _where(source: str, device: str, costs: CostModel | None) -> str:
    if costs is None:
        return ""
    doubt = ", while the machine was busy" if costs.spread > BUSY else ""
    if min(costs.v.values()) < CHEAPEST:
        doubt += "; some widths came out cheaper than a single token, so the clock was not steady: take it with care"
    return f"{source}, on {device}, at {costs.context} tokens of context{doubt}"


def _conditions(costs: DeviceCosts) -> str:
    model = costs.model
    return (
        f"{_where('with the points below', f'{costs.device}, {costs.precision}', model)}. "
        f"One plain step took {1000 * model.step:.3g} ms, a draft step c = {model.c:.3f} of that, "
        f"five tokens at once v(5) = {interpolate(model.v, 5):.2f} of it"
    )


def _words(run: Trace, numbers: RunMetrics, point: dict, drafted: list[int], costs: CostModel | None) -> str:
    method = METHOD_LABELS.get(run.started.config.get("method", ""), "").split(":")[0] or "unknown method"
    lead = "Your last run" if point["own"] else "No run of yours yet; this is the recorded run that the page opens with"
    words = [f"{lead}: {method} on {run.started.device}."]
    if numbers.alpha is None:
        words.append("It tested no draft, so it has no α.")
    else:
        words.append(
            f"α = {numbers.alpha.value:.2f}: {numbers.accepted} of {numbers.tested} tested drafts were accepted."
        )
    if drafted:
        words.append(
            f"{len(drafted)} of {len(run.rounds)} rounds drafted, {point['gamma']:.1f} tokens each on average."
        )
    words.append("Its costs were not measured." if costs is None else f"c = {costs.c:.2f}.")
    if point["measured"] is not None:
        words.append(f"Measured: {point['measured']:.2f}× plain decoding.")
    elif drafted:
        words.append("It has no whole baseline, so no speedup was measured.")
    if point["predicted"] is not None:
        words.append(f"Predicted from its rounds: {point['predicted']:.2f}×.")
    return " ".join(words)


# ── tables ──


def predicted(point: Point, costs: DeviceCosts) -> float:
    return idealised_speedup(point.alpha, point.gamma, costs.model.c, costs.model.v)


def points_table(measured: PointSet) -> str:
    """A row per point, measured beside predicted; the fastest one is marked."""
    points, costs = measured.ordered, measured.costs
    if not points or costs is None:
        return empty()
    fastest = max(points, key=lambda point: point.speedup)
    heads = (
        "α set", "γ", "α counted", "tokens a pass, τ", "τ expected", "measured", "predicted", "measured ÷ predicted",
        "repeats",
    )  # fmt: skip
    rows = [_row(point, costs, point is fastest) for point in points]
    return sheet("Every point: speedup over plain decoding, measured and predicted", heads, rows)


def _row(point: Point, costs: DeviceCosts, fastest: bool) -> list:
    expected, speed = predicted(point, costs), f"{point.speedup:.2f}×"
    return [
        f"{point.alpha:g}",
        str(point.gamma),
        "–" if point.seen is None else f"{point.seen:.2f}",
        f"{point.tau:.2f}",
        f"{expected_tokens(point.alpha, point.gamma):.2f}",
        (speed, BEST) if fastest and point.speedup > 1 else speed,
        f"{expected:.2f}×",
        f"{point.speedup / expected:.2f}",
        str(len(point.turns)),
    ]


def break_even_table(measured: PointSet) -> str:
    """The α from which each draft length pays: as predicted, and as far as the points can tell."""
    points, costs = measured.ordered, measured.costs
    if not points or costs is None:
        return empty()
    rows = []
    for gamma in sorted({point.gamma for point in points}):
        at = break_even(gamma, costs.model.c, costs.model.v)
        prediction = "never" if at is None else "any α" if at == 0 else f"α = {at:.2f}"
        rows.append([f"{gamma}", prediction, crossing([point for point in points if point.gamma == gamma])])
    return sheet("From which α drafting pays", ("draft length γ", "predicted from", "measured"), rows)


def crossing(points: Sequence[Point]) -> str:
    """Between which two α the points of one γ, in order of α, rise to 1×."""
    pays = [point.speedup >= 1 for point in points]
    if all(pays):
        return f"at every α measured, from {points[0].alpha:g}"
    if not any(pays):
        return f"at none measured, up to {points[-1].alpha:g}"
    last_slow = max(i for i, paid in enumerate(pays) if not paid)
    if last_slow == len(points) - 1 or any(pays[:last_slow]):
        return "at some and not at others: too noisy to say; raise the repeats"
    return f"between α = {points[last_slow].alpha:g} and {points[last_slow + 1].alpha:g}"


def summary(measured: PointSet) -> str:
    """From which α drafting pays, the fastest point, and how far measured and predicted speedups differ."""
    points, costs = measured.ordered, measured.costs
    fastest = max(points, key=lambda point: point.speedup)
    shares = [point.speedup / predicted(point, costs) for point in points]
    best = f"The fastest was α = {fastest.alpha:g} with γ = {fastest.gamma}: {fastest.speedup:.2f}×."
    if fastest.speedup <= 1:
        best = f"No point was faster than plain decoding; the best came to {fastest.speedup:.2f}×."
    if len(points) == 1:
        return f"{best} Predicted: {predicted(points[0], costs):.2f}×."
    spread = f"{min(shares):.2f} to {max(shares):.2f}, the middle one {median(shares):.2f}"
    far = max(shares) > FAR or min(shares) < 1 / FAR
    gammas = {point.gamma for point in points}
    if len(gammas) == 1 and fastest.speedup > 1:
        best = f"1× was reached {crossing(points)}. {best}"
    return f"{best} Measured ÷ predicted went from {spread}." + (NOISY if far else "")


# ── files ──


def to_csv(measured: PointSet) -> str:
    """A row per point."""
    costs, settings = measured.costs, _settings(measured)
    about = settings | ({"device": costs.device, "precision": costs.precision} if costs else {})
    rows = [about | _numbers(point, costs) for point in measured.ordered]
    return csv_text(COLUMNS, [[row[name] for name in COLUMNS] for row in rows])


def to_json(measured: PointSet) -> str:
    """Everything, the single runs of each point included, so that they can be summed up in another way."""
    costs = measured.costs
    points = [
        _numbers(point, costs)
        | {"turns": [{"plain": turn.plain.row(), "ours": turn.ours.row()} for turn in point.turns]}
        for point in measured.ordered
    ]
    note = "Drafts were accepted by chance, so the text was not the model's and was not stored."
    where = {"device": costs.device, "precision": costs.precision} | asdict(costs.model)
    content = {"speclens": "any-alpha", "note": note, **_settings(measured), "costs": where, "points": points}
    return json.dumps(content, indent=1, allow_nan=False)


def _settings(measured: PointSet) -> dict[str, Any]:
    return {"pair": measured.pair, "method": measured.method, "max_new_tokens": measured.tokens}


def _numbers(point: Point, costs: DeviceCosts) -> dict[str, Any]:
    """By the names of COLUMNS."""
    expected = predicted(point, costs)
    return {
        "alpha": point.alpha, "gamma": point.gamma, "repeats": len(point.turns), "alpha_seen": point.seen,
        "tau": point.tau, "expected_tau": expected_tokens(point.alpha, point.gamma), "speedup": point.speedup,
        "predicted": expected, "measured_over_predicted": point.speedup / expected,
    }  # fmt: skip
