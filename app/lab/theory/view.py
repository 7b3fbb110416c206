"""Renders the theory tab: a run and measured points beside the curves, the tables and the files of the points."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from app.form import METHOD_LABELS
from app.lab.recorded import Recorded
from app.lab.theory.request import DeviceCosts, PointSet
from app.views.predictions import chain_cost, other_than_chains
from app.views.safe_json import encode, short
from app.views.table import BEST, csv_text, empty, sheet
from app.views.tiles import speedup
from engine.errors import quantity
from engine.tools.bench.result_file import parse_values
from engine.tools.bench.sample import Point
from engine.trace.costs import BUSY, CostModel
from engine.trace.metrics import RunMetrics, compute_metrics
from engine.trace.noise import (
    NOISE,
    Speedup,
    about_costs,
    about_machine,
    break_even_bracket,
    fastest,
    largest_share,
    monotone_costs,
    winner,
)
from engine.trace.speedup_model import break_even, expected_tokens, idealised_speedup, interpolate, predicted_speedup
from engine.trace.speedup_words import doubts, number
from engine.trace.trace import Trace

MOST_GAMMA = 16  # on the charts' γ axis
NO_RUN = "No run to compare with yet. Run a prompt in the playground and come back."
FAR = 1.3  # `efficiency`, or its inverse, from which a point is called noisy
NOISY = (
    " Some points are far from what their τ predicts. Short runs vary, and this machine may have been busy. "
    "Raise the repeats or the tokens of a run."
)
BUSY_THEN = "while the machine was busy: take it with care"
COLUMNS = (
    "pair", "method", "max_new_tokens", "alpha", "gamma", "repeats", "alpha_seen", "tau",
    "expected_tau", "speedup", "low", "high", "predicted", "predicted_from_tau", "efficiency", "busy",
)  # fmt: skip


# ── the curves' value ──


def curves(run: Trace | None, baseline: Trace | None, own: bool, measured: PointSet, gammas: Sequence[int] = ()) -> str:
    """Returns JSON for the theory component: a run's point, and under "here" the points measured on this machine.

    ``own``: the run is the visitor's, not the recorded one. ``gammas``: draft lengths whose curve is drawn before
    they have points.
    """
    return encode(_run_point(run, baseline, own) | {"here": _here(measured, gammas)})


def _run_point(run: Trace | None, baseline: Trace | None, own: bool) -> dict[str, Any]:
    """Returns a run's α, γ, costs and speedups; null where the run has none, or no place on the curves. γ is the mean
    of the rounds that drafted."""
    if run is None or not run.rounds:
        return {"own": own, "words": NO_RUN}
    numbers, costs = compute_metrics(run), _usable(run.started.costs)
    drafted = [len(event.parents) for event in run.rounds if event.parents]
    ratio = speedup(run, baseline)
    is_chain = not other_than_chains(run)
    point = {
        "own": own,
        "alpha": short(numbers.alpha.value) if numbers.alpha and is_chain else None,
        "gamma": short(sum(drafted) / len(drafted)) if drafted and is_chain else None,
        **_costs(costs and replace(costs, c=chain_cost(run, costs))),
        "measured": short(ratio.possible_value) if ratio and drafted else None,
        "predicted": short(numbers.predicted_speedup) if costs and drafted else None,
        "where": _where("in your last run" if own else "in the recorded run", run.started.device, costs),
    }
    return point | {"words": _words(run, numbers, point, drafted, costs, ratio)}


def _here(measured: PointSet, gammas: Sequence[int]) -> dict[str, Any] | None:
    if measured.costs is None:
        return None
    costs = _usable(measured.costs.model)
    points = [each for each in measured.by_gamma if each.measured.is_possible]
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
    """Returns the costs without noise; None for costs that no device has, because a file may claim steps that take
    no time."""
    costs = costs and monotone_costs(costs)
    if costs is None or not costs.v or not (math.isfinite(costs.c) and costs.c >= 0):
        return None
    scoring = [interpolate(costs.v, width) for width in range(1, MOST_GAMMA + 2)]
    return costs if all(math.isfinite(cost) and cost > 0 for cost in scoring) else None


def _where(source: str, device: str, costs: CostModel | None) -> str:
    if costs is None:
        return ""
    doubt = f", {BUSY_THEN}" if costs.spread > BUSY else ""
    doubt += f". {words.rstrip('.')}" if (words := about_costs(costs)) else ""
    return f"{source}, on {device}, at {costs.context} tokens of context{doubt}"


def _conditions(costs: DeviceCosts) -> str:
    model = costs.without_noise
    return (
        f"{_where('with the points below', f'{costs.device}, {costs.precision}', model)}. "
        f"One plain step took {1000 * model.step:.3g} ms, a draft step c = {model.c:.3f} of that, "
        f"five tokens at once v(5) = {interpolate(model.v, 5):.2f} of it"
    )


def _words(
    run: Trace, numbers: RunMetrics, point: dict, drafted: list[int], costs: CostModel | None, ratio: Speedup | None
) -> str:
    method = METHOD_LABELS.get(run.started.method, "").split(":")[0] or "unknown method"
    if run.started.server:
        return "Your last file is the recording of a server, so it has no costs: use the form below."
    lead = "Your last run" if point["own"] else "No run of yours yet; this is a recorded run of the example Rewrite"
    words = [f"{lead}: {method} on {run.started.device}."]
    if numbers.alpha is None:
        words.append("It tested no draft, so it has no α.")
    else:
        words.append(
            f"α = {numbers.alpha.value:.2f}: {numbers.accepted} of {numbers.tested} tested drafts were accepted."
        )
    if drafted:
        words.append(
            f"{len(drafted)} of {quantity(len(run.rounds), 'round')} drafted, {sum(drafted) / len(drafted):.1f} tokens "
            "each on average."
        )
    if other := other_than_chains(run):
        words.append(f"The curves are about chains, each draft a step of one drafter: {other}.")
    else:
        words.append("Its costs were not measured." if costs is None else f"c = {point['c']:.2f}.")
    if point["measured"] is not None:
        low, high = ratio.ends
        words.append(f"Measured: {ratio.value:.2f}× plain decoding, with a true value from {low:.2f} to {high:.2f}.")
    elif ratio is not None and drafted:
        words.append("Its measured speedup is larger than is possible. That is noise, so measure again.")
    elif drafted:
        words.append("It has no whole baseline, so no speedup was measured.")
    if point["predicted"] is not None:
        words.append(f"Predicted from its rounds: {point['predicted']:.2f}×.")
    return " ".join(words)


# ── tables ──


def predict(point: Point, costs: DeviceCosts) -> float:
    model = costs.without_noise
    return idealised_speedup(point.alpha, point.gamma, model.c, model.v)


def predict_from_tau(point: Point, costs: DeviceCosts) -> float:
    """Returns the speedup that a point's own tokens per pass promise: chance may have accepted more or fewer drafts
    than the α that was set."""
    model = costs.without_noise
    return predicted_speedup([(point.tau, point.gamma * model.c, point.gamma)], model.v)


def efficiency(point: Point, costs: DeviceCosts) -> float:
    """Returns measured ÷ predicted from τ: how near the passes come to their costs."""
    return point.speedup / predict_from_tau(point, costs)


def points_table(measured: PointSet) -> str:
    """Writes a row for each point, measured beside predicted; the one that is certainly the fastest is marked."""
    points, costs = measured.by_gamma, measured.costs
    if not points or costs is None:
        return empty()
    best = winner({point.place: point.measured for point in points})
    heads = (
        "α set", "γ", "α counted", "tokens per pass, τ", "τ expected", "measured", "predicted",
        "predicted from τ", "measured ÷ predicted from τ", "repeats",
    )  # fmt: skip
    rows = [_row(point, costs, point.place == best) for point in points]
    caption = "Every point: speedup over plain decoding, measured, predicted from α, and predicted from its own τ."
    return sheet(f"{caption} {about_machine(_busiest(points))}".rstrip(), heads, rows)


def _row(point: Point, costs: DeviceCosts, is_best: bool) -> list:
    expected, measured = predict(point, costs), point.measured
    return [
        f"{point.alpha:g}",
        str(point.gamma),
        number(point.seen, 2),
        f"{point.tau:.2f}",
        f"{expected_tokens(point.alpha, point.gamma):.2f}",
        (measured.words, NOISE if not measured.is_possible else BEST if is_best and measured.tone == "faster" else ""),
        f"{expected:.2f}×",
        f"{predict_from_tau(point, costs):.2f}×",
        f"{efficiency(point, costs):.2f}" if measured.is_possible else NOISE,
        str(len(point.turns)),
    ]


def break_even_table(measured: PointSet) -> str:
    """Writes the α from which each draft length pays: as predicted, and as far as the points can tell."""
    points, costs = measured.by_gamma, measured.costs
    if not points or costs is None:
        return empty()
    rows, model = [], costs.without_noise
    for gamma in sorted({point.gamma for point in points}):
        at = break_even(gamma, model.c, model.v)
        prediction = "never" if at is None else "any α" if at == 0 else f"α = {at:.2f}"
        rows.append([f"{gamma}", prediction, crossing([point for point in points if point.gamma == gamma])])
    return sheet("From which α drafting pays", ("draft length γ", "predicted from", "measured"), rows)


def crossing(points: Sequence[Point]) -> str:
    """Finds the two α between which the points of one γ, in order of α, certainly rise to 1×."""
    known = [point for point in points if point.measured.is_possible]
    if not known:
        return "noise: measure again"
    tones = [point.measured.tone for point in known]
    if "slower" in tones and "faster" in tones[: len(tones) - 1 - tones[::-1].index("slower")]:
        return "at some and not at others: too noisy to say; raise the repeats"
    fast, slow = break_even_bracket([(point.alpha, point.measured) for point in reversed(known)])
    if fast is None and slow is None:
        return "no difference from plain decoding"
    if fast is None:
        return f"at none measured, up to {known[-1].alpha:g}"
    if slow is None:
        at_all = set(tones) == {"faster"}
        return f"at every α measured, from {fast:g}" if at_all else f"from α = {fast:g} on; below it no difference"
    return f"between α = {slow:g} and {fast:g}"


def summary(measured: PointSet) -> str:
    """Says from which α drafting pays, which point is fastest, and how far measured and predicted speedups differ."""
    points, costs = [point for point in measured.by_gamma if point.measured.is_possible], measured.costs
    machine = f"{about_machine(_busiest(measured.by_gamma))} {_about_busy_costs(costs)}".strip()
    if not points:
        return f"Every point is noise: faster than its tokens per pass allow. Measure again. {machine}".rstrip()
    first = fastest({point.place: point.measured for point in points})
    top = next(point for point in points if point.place == first[0])
    best = f"The fastest was α = {top.alpha:g} with γ = {top.gamma}: {top.measured.words}."
    if len(first) > 1:
        best = f"The fastest was α = {top.alpha:g} with γ = {top.gamma}: {top.measured.words}; others may equal it."
    if top.measured.tone != "faster":
        best = f"No point was certainly faster than plain decoding; the best came to {top.measured.words}."
    shares = [efficiency(point, costs) for point in points]
    if len(points) == 1:
        return f"{best} Predicted from its τ: {predict_from_tau(points[0], costs):.2f}×. {machine}".rstrip()
    spread = f"{min(shares):.2f} to {max(shares):.2f}, the middle one {median(shares):.2f}"
    far = max(shares) > FAR or min(shares) < 1 / FAR
    gammas = {point.gamma for point in points}
    if len(gammas) == 1 and top.measured.tone == "faster":
        best = f"1× was reached {crossing(points)}. {best}"
    noisy = NOISY if far or len(points) < len(measured.by_gamma) else ""
    return f"{best} Measured ÷ predicted from τ went from {spread}.{noisy} {machine}".rstrip()


def doubts_about(measured: PointSet) -> str:
    """Warns of noise, of a busy machine, and of costs that were measured on one."""
    points, costs = measured.by_gamma, measured.costs
    words = doubts(any(not point.measured.is_possible for point in points), [_busiest(points)])
    return f"{words} {_about_busy_costs(costs)}".rstrip()


def _about_busy_costs(costs: DeviceCosts | None) -> str:
    is_busy = costs is not None and costs.model.spread > BUSY
    return f"The costs were measured {BUSY_THEN}." if is_busy else ""


def _busiest(points: Sequence[Point]) -> float | None:
    return largest_share(point.measured.busy for point in points)


# ── files ──


def to_csv(measured: PointSet, where: Mapping[str, str]) -> str:
    """Writes a row for each point; an impossible speedup is left out. ``where``: as in `to_json`."""
    costs, settings = measured.costs, _settings(measured)
    noise = dict.fromkeys(("speedup", "low", "high", "efficiency"))
    rows = [
        settings | _numbers(point, costs) | ({} if point.measured.is_possible else noise) for point in measured.by_gamma
    ]
    known = {**where} | ({"device": costs.device, "precision": costs.precision} if costs else {})
    return csv_text(COLUMNS, [[row[name] for name in COLUMNS] for row in rows], known)


def to_json(measured: PointSet, where: Mapping[str, str]) -> str:
    """Writes everything, the single runs of each point included, so that they can be summed up in another way.
    ``where``: device, precision, version and time."""
    costs = measured.costs
    points = [
        _numbers(point, costs)
        | {"turns": [{"plain": turn.plain.row(), "ours": turn.ours.row()} for turn in point.turns]}
        for point in measured.by_gamma
    ]
    note = "Drafts were accepted by chance, so the text was not the model's and was not stored."
    known = {"device": costs.device, "precision": costs.precision} | asdict(costs.model)
    content = {
        "speclens": "any-alpha", "note": note, **where, **_settings(measured), "costs": known, "points": points,
    }  # fmt: skip
    return json.dumps(content, indent=1, allow_nan=False)


def _settings(measured: PointSet) -> dict[str, Any]:
    return {"pair": measured.pair, "method": measured.method, "max_new_tokens": measured.tokens}


def _numbers(point: Point, costs: DeviceCosts) -> dict[str, Any]:
    """Returns the numbers of a point by the names of COLUMNS."""
    low, high = point.measured.interval or (None, None)
    return {
        "alpha": point.alpha, "gamma": point.gamma, "repeats": len(point.turns), "alpha_seen": point.seen,
        "tau": point.tau, "expected_tau": expected_tokens(point.alpha, point.gamma), "speedup": point.speedup,
        "low": low, "high": high, "predicted": predict(point, costs),
        "predicted_from_tau": predict_from_tau(point, costs), "efficiency": efficiency(point, costs),
        "busy": point.measured.busy,
    }  # fmt: skip


def from_json(saved: bytes) -> Recorded:
    """Reads what `to_json` gave."""
    content = json.loads(saved)
    about, costs = content["costs"], parse_values(CostModel, content["costs"])
    points = [parse_values(Point, each | {"seen": each["alpha_seen"]}) for each in content["points"]]
    measured = PointSet(
        content["pair"], content["method"], content["max_new_tokens"],
        DeviceCosts(about["device"], about["precision"], costs), {point.place: point for point in points},
    )  # fmt: skip
    return Recorded.from_file(measured, content)
