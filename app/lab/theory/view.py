"""Renders the theory tab: a run and measured points beside the curves, tables and files."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from app.form import METHOD_LABELS
from app.lab.recorded import Recorded
from app.lab.theory.work import DeviceCosts, PointSet
from app.views.predictions import chain_cost, other_than_chains
from app.views.safe_json import encode, short
from app.views.table import csv_text, empty, sheet, speedup_cell
from app.views.tiles import speedup
from engine.errors import quantity
from engine.tools.bench.result_file import parse_values
from engine.tools.bench.sample import Point
from engine.tools.bench.winners import break_even, break_even_bracket, fastest, winner
from engine.trace import noise
from engine.trace.costs import BUSY, CostModel
from engine.trace.metrics import RunMetrics, compute_metrics
from engine.trace.noise import NOISE, Speedup
from engine.trace.speedup_model import expected_tokens, idealised_speedup, interpolate, predicted_speedup
from engine.trace.speedup_words import doubts as words_of_doubts
from engine.trace.speedup_words import number
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
    here, costs = None, measured.costs
    if costs is not None:
        points = [each for each in measured.by_gamma if each.measured.is_possible]
        here = {
            **_costs(_usable(costs.model)), "where": _conditions(costs),
            "gammas": sorted({*gammas, *(point.gamma for point in points)}),
            "points": [[point.alpha, point.gamma, short(point.speedup)] for point in points],
        }  # fmt: skip
    return encode(_run_point(run, baseline, own) | {"here": here})


def _run_point(run: Trace | None, baseline: Trace | None, own: bool) -> dict[str, Any]:
    """Returns a run's α, γ, costs and speedups; null where the run has none, or no place on the curves. γ is the mean
    of the rounds that drafted."""
    if run is None or not run.rounds:
        return {"own": own, "words": NO_RUN}
    numbers, costs = compute_metrics(run), _usable(run.started.costs)
    drafted = [len(event.parents) for event in run.rounds if event.parents]
    ratio, is_chain = speedup(run, baseline), not other_than_chains(run)
    point = {
        "own": own,
        "alpha": short(numbers.alpha.value) if numbers.alpha and is_chain else None,
        "gamma": short(sum(drafted) / len(drafted)) if drafted and is_chain else None,
        **_costs(costs and replace(costs, c=chain_cost(run, costs))),
        "measured": short(ratio.possible_value) if ratio and drafted else None,
        "predicted": short(numbers.predicted_speedup) if costs and drafted else None,
        "where": _where("in your last run" if own else "in the recorded run", run.started.device, costs),
    }
    return point | {"words": _words(run, numbers, point, drafted, ratio)}


def _costs(costs: CostModel | None) -> dict[str, Any]:
    if costs is None:
        return {"c": None, "v": None}
    return {"c": short(costs.c), "v": {str(width): short(cost) for width, cost in sorted(costs.v.items())}}


def _usable(costs: CostModel | None) -> CostModel | None:
    """Returns the costs without noise; None for costs that no device has, because a file may claim steps that take
    no time."""
    costs = costs and noise.monotone_costs(costs)
    if costs is None or not costs.v or not (math.isfinite(costs.c) and costs.c >= 0):
        return None
    scoring = [interpolate(costs.v, width) for width in range(1, MOST_GAMMA + 2)]
    return costs if all(math.isfinite(cost) and cost > 0 for cost in scoring) else None


def _where(source: str, device: str, costs: CostModel | None) -> str:
    if costs is None:
        return ""
    doubt = f", {BUSY_THEN}" if costs.spread > BUSY else ""
    doubt += f". {words.rstrip('.')}" if (words := noise.about_costs(costs)) else ""
    return f"{source}, on {device}, at {costs.context} tokens of context{doubt}"


def _conditions(costs: DeviceCosts) -> str:
    model = costs.without_noise
    return (
        f"{_where('with the points below', f'{costs.device}, {costs.precision}', model)}. "
        f"One plain step took {1000 * model.step:.3g} ms, a draft step c = {model.c:.3f} of that, "
        f"five tokens at once v(5) = {interpolate(model.v, 5):.2f} of it"
    )


def _words(run: Trace, numbers: RunMetrics, point: dict, drafted: list[int], ratio: Speedup | None) -> str:
    if run.started.server:
        return "Your last file is the recording of a server, so it has no costs: use the form below."
    method = METHOD_LABELS.get(run.started.method, "").split(":")[0] or "unknown method"
    lead = "Your last run" if point["own"] else "No run of yours yet; this is a recorded run of the example Rewrite"
    words = [f"{lead}: {method} on {run.started.device}."]
    if numbers.alpha is None:
        words.append("It tested no draft, so it has no α.")
    else:
        tested = f"{numbers.accepted} of {numbers.tested} tested drafts were accepted."
        words.append(f"α = {numbers.alpha.value:.2f}: {tested}")
    if drafted:
        rounds, mean = quantity(len(run.rounds), "round"), sum(drafted) / len(drafted)
        words.append(f"{len(drafted)} of {rounds} drafted, {mean:.1f} tokens each on average.")
    if other := other_than_chains(run):
        words.append(f"The curves are about chains, each draft a step of one drafter: {other}.")
    else:
        words.append("Its costs were not measured." if point["c"] is None else f"c = {point['c']:.2f}.")
    if point["measured"] is not None:
        low, high = ratio.ends
        words.append(f"Measured: {ratio.value:.2f}× plain decoding, with a true value from {low:.2f} to {high:.2f}.")
    elif ratio is not None and drafted:
        words.append("Its measured speedup is larger than is possible. That is noise, so measure again.")
    elif drafted:
        words.append("Plain decoding was not recorded to the end, so no speedup was measured.")
    if point["predicted"] is not None:
        words.append(f"Predicted from its rounds: {point['predicted']:.2f}×.")
    return " ".join(words)


# ── tables ──


def predict_from_tau(point: Point, costs: DeviceCosts) -> float:
    """Returns the speedup that a point's own tokens per pass promise: chance may have accepted more or fewer drafts
    than the α that was set."""
    model = costs.without_noise
    return predicted_speedup([(point.tau, point.gamma * model.c, point.gamma)], model.v)


def _numbers(point: Point, costs: DeviceCosts) -> dict[str, Any]:
    """Returns the numbers of a point by the names of COLUMNS. Its efficiency is measured ÷ predicted from τ: how near
    the passes come to their costs."""
    (low, high), from_tau = point.measured.interval or (None, None), predict_from_tau(point, costs)
    model = costs.without_noise
    return {
        "alpha": point.alpha, "gamma": point.gamma, "repeats": len(point.turns), "alpha_seen": point.seen,
        "tau": point.tau, "expected_tau": expected_tokens(point.alpha, point.gamma), "speedup": point.speedup,
        "low": low, "high": high, "predicted": idealised_speedup(point.alpha, point.gamma, model.c, model.v),
        "predicted_from_tau": from_tau, "efficiency": point.speedup / from_tau, "busy": point.measured.busy,
    }  # fmt: skip


def tables(measured: PointSet) -> dict[str, str]:
    return {"break_even": break_even_table(measured), "points": points_table(measured)}


def points_table(measured: PointSet) -> str:
    """Writes a row for each point, measured beside predicted; the one that is certainly the fastest is marked."""
    points, costs, rows = measured.by_gamma, measured.costs, []
    if not points or costs is None:
        return empty()
    best = winner({point.place: point.measured for point in points})
    for point in points:
        has, is_best = _numbers(point, costs), point.place == best and point.measured.tone == "faster"
        rows.append([
            f"{point.alpha:g}", f"{point.gamma}", number(point.seen, 2), f"{point.tau:.2f}",
            f"{has['expected_tau']:.2f}", speedup_cell(point.measured, is_best), f"{has['predicted']:.2f}×",
            f"{has['predicted_from_tau']:.2f}×",
            f"{has['efficiency']:.2f}" if point.measured.is_possible else NOISE, f"{len(point.turns)}",
        ])  # fmt: skip
    heads = (
        "α set", "γ", "α counted", "tokens per pass, τ", "τ expected", "measured", "predicted",
        "predicted from τ", "measured ÷ predicted from τ", "repeats",
    )  # fmt: skip
    caption = "Every point: speedup over plain decoding, measured, predicted from α, and predicted from its own τ."
    return sheet(f"{caption} {noise.about_machine(_busiest(points))}".rstrip(), heads, rows)


def break_even_table(measured: PointSet) -> str:
    """Writes the α from which each draft length pays: as predicted, and as far as the points can tell."""
    points, costs, rows = measured.by_gamma, measured.costs, []
    if not points or costs is None:
        return empty()
    for gamma in sorted({point.gamma for point in points}):
        at = break_even(gamma, costs.without_noise.c, costs.without_noise.v)
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
    if fast is None:
        return "no difference from plain decoding" if slow is None else f"at none measured, up to {known[-1].alpha:g}"
    if slow is None:
        at_all = set(tones) == {"faster"}
        return f"at every α measured, from {fast:g}" if at_all else f"from α = {fast:g} on; below it no difference"
    return f"between α = {slow:g} and {fast:g}"


# ── sentences ──


def verdict(measured: PointSet) -> str:
    """Says from which α drafting pays, which point is fastest, and how far measured and predicted speedups differ."""
    points, costs = [point for point in measured.by_gamma if point.measured.is_possible], measured.costs
    machine = f"{noise.about_machine(_busiest(measured.by_gamma))} {_about_busy_costs(costs)}".strip()
    if not points:
        return f"Every point is noise: faster than its tokens per pass allow. Measure again. {machine}".rstrip()
    first = fastest({point.place: point.measured for point in points})
    top = measured.points[first[0]]
    others = "; others may equal it" if len(first) > 1 else ""
    best = f"The fastest was α = {top.alpha:g} with γ = {top.gamma}: {top.measured.words}{others}."
    if top.measured.tone != "faster":
        best = f"No point was certainly faster than plain decoding; the best came to {top.measured.words}."
    if len(points) == 1:
        return f"{best} Predicted from its τ: {predict_from_tau(points[0], costs):.2f}×. {machine}".rstrip()
    shares = [point.speedup / predict_from_tau(point, costs) for point in points]
    spread = f"{min(shares):.2f} to {max(shares):.2f}, the middle one {median(shares):.2f}"
    if len({point.gamma for point in points}) == 1 and top.measured.tone == "faster":
        best = f"1× was reached {crossing(points)}. {best}"
    is_far = max(shares) > FAR or min(shares) < 1 / FAR or len(points) < len(measured)
    return f"{best} Measured ÷ predicted from τ went from {spread}.{NOISY if is_far else ''} {machine}".rstrip()


def doubts(measured: PointSet) -> str:
    """Warns of noise, of a busy machine, and of costs that were measured on one."""
    points = measured.by_gamma
    words = words_of_doubts(any(not point.measured.is_possible for point in points), [_busiest(points)])
    return f"{words} {_about_busy_costs(measured.costs)}".rstrip()


def _about_busy_costs(costs: DeviceCosts | None) -> str:
    is_busy = costs is not None and costs.model.spread > BUSY
    return f"The costs were measured {BUSY_THEN}." if is_busy else ""


def _busiest(points: Sequence[Point]) -> float | None:
    return noise.largest_share(point.measured.busy for point in points)


# ── files ──


def files(measured: PointSet, where: Mapping[str, str]) -> tuple[str, str]:
    """Returns a CSV with a row for each point, where an impossible speedup is left out, and JSON with everything: the
    single runs of each point, too, so that they can be summed up in another way. ``where``: device, precision, version
    and time."""
    costs = measured.costs
    settings = {"pair": measured.pair, "method": measured.method, "max_new_tokens": measured.tokens}
    device = {"device": costs.device, "precision": costs.precision} if costs else {}
    lines, points, unknown = [], [], dict.fromkeys(("speedup", "low", "high", "efficiency"))
    for point in measured.by_gamma:
        numbers = _numbers(point, costs)
        row = settings | numbers | ({} if point.measured.is_possible else unknown)
        lines.append([row[name] for name in COLUMNS])
        turns = [{"plain": turn.plain.row(), "ours": turn.ours.row()} for turn in point.turns]
        points.append(numbers | {"turns": turns})
    note = "Drafts were accepted by chance, so the text was not the model's and was not stored."
    content = {"speclens": "any-alpha", "note": note, **where, **settings, "costs": device | asdict(costs.model)}
    return (
        csv_text(COLUMNS, lines, {**where, **device}),
        json.dumps(content | {"points": points}, indent=1, allow_nan=False),
    )


def read_saved(saved: bytes) -> Recorded:
    content = json.loads(saved)
    about, costs = content["costs"], parse_values(CostModel, content["costs"])
    points = [parse_values(Point, each | {"seen": each["alpha_seen"]}) for each in content["points"]]
    device = DeviceCosts(about["device"], about["precision"], costs)
    known = {point.place: point for point in points}
    measured = PointSet(content["pair"], content["method"], content["max_new_tokens"], device, known)
    return Recorded.from_file(measured, content)
