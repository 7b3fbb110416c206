"""Any α: measured points on predicted curves, as a chart, tables and files. Pure; no gradio, no torch.

What is predicted comes from engine.theory with the costs that were measured, so chart and table agree by construction.
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

from app.experiments.spots import Costs, Measured, Spot
from app.views.encode import encode, short
from app.views.figures import Figure, axes, level
from app.views.sheet import BEST, empty
from app.views.sheet import sheet as as_sheet
from app.views.table import harmless
from engine.events import BUSY
from engine.theory import break_even, expected_tokens, idealised_speedup, interpolate

CHART = "any-alpha"
EMPTY = "Drawn as soon as the costs of this device are known."
# Colour roles of the page, used here only to tell lengths apart; marker and dash say the same without colour.
LOOKS = {
    1: ("@verify", "circle", "solid"),
    2: ("@rejected", "square", "dash"),
    4: ("@accept", "diamond", "dot"),
    8: ("@predicted", "triangle-up", "dashdot"),
}
STEPS = 50  # of a predicted line, from α = 0 to 1
COLUMNS = (
    "pair", "method", "max_new_tokens", "device", "precision", "alpha", "gamma", "repeats", "alpha_seen", "tau",
    "expected_tau", "speedup", "predicted", "measured_over_predicted",
)  # fmt: skip
FAR = 1.3  # measured ÷ predicted, or its inverse, beyond which a point is more noise than news
NOISY = (
    " Some points are far from their line: short runs are a matter of luck, and this machine may have been busy with "
    "something else. More repeats and longer runs bring them closer."
)


def predicted(spot: Spot, costs: Costs) -> float:
    return idealised_speedup(spot.alpha, spot.gamma, costs.c, costs.v)


# ── the chart ──


def chart(measured: Measured, gammas: Sequence[int] = ()) -> str:
    """``gammas``: lengths whose predicted curve is drawn before anything was measured at them."""
    costs = measured.costs
    if costs is None:
        return _figure(Figure(note=EMPTY))
    shown = sorted({*gammas, *(spot.gamma for spot in measured.points)})
    data = [_line(gamma, costs) for gamma in shown]
    data += [_markers(gamma, measured) for gamma in shown if any(s.gamma == gamma for s in measured.points)]
    data += [starts for gamma in shown if (starts := _starts(gamma, costs))]
    layout = axes("α, chance that a draft is kept", "× plain decoding", shapes=[level(1.0)])
    layout["xaxis"] |= {"range": [-0.02, 1.02], "dtick": 0.1}
    return _figure(Figure(data, layout, _note(costs)))


def _line(gamma: int, costs: Costs) -> dict:
    colour, _, dash = LOOKS[gamma]
    alphas = [i / STEPS for i in range(STEPS + 1)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"γ = {gamma} predicted",
        "legendgroup": f"γ{gamma}",
        "x": alphas,
        "y": [short(idealised_speedup(alpha, gamma, costs.c, costs.v)) for alpha in alphas],
        "line": {"width": 2.5, "color": colour, "dash": dash},
        "hovertemplate": f"γ = {gamma}, α = %{{x:.2f}}: %{{y:.2f}}× predicted<extra></extra>",
    }


def _markers(gamma: int, measured: Measured) -> dict:
    colour, symbol, _ = LOOKS[gamma]
    spots = [spot for spot in measured.points if spot.gamma == gamma]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"γ = {gamma} measured",
        "legendgroup": f"γ{gamma}",
        "x": [spot.alpha for spot in spots],
        "y": [short(spot.speedup) for spot in spots],
        "marker": {"symbol": symbol, "size": 12, "color": colour, "line": {"width": 1.5, "color": "@ink"}},
        "hovertemplate": f"γ = {gamma}, α = %{{x:.2f}}: %{{y:.2f}}× measured<extra></extra>",
    }


def _starts(gamma: int, costs: Costs) -> dict | None:
    """Where the predicted line crosses 1×; nothing where it never does."""
    alpha = break_even(gamma, costs.c, costs.v)
    if alpha is None:
        return None
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"γ = {gamma} pays from here",
        "legendgroup": f"γ{gamma}",
        "showlegend": False,
        "x": [short(alpha)],
        "y": [1.0],
        "marker": {"symbol": "line-ns", "size": 18, "line": {"width": 3, "color": LOOKS[gamma][0]}},
        "hovertemplate": f"γ = {gamma} pays from α = %{{x:.2f}} on, by prediction<extra></extra>",
    }


def _note(costs: Costs) -> str:
    step = f"{1000 * costs.step:.3g} ms"
    note = (
        "Lines: predicted from α alone, (1 − α^(γ+1)) / (1 − α) ÷ (γ · c + v(γ + 1)). Marks: measured, each beside "
        "plain decoding run just before it. Dashed across: as fast as plain decoding; a short upright stroke on it is "
        f"where a predicted line crosses. Costs on {costs.device}, {costs.precision}: one plain step {step}, a draft "
        f"step c = {costs.c:.3f} of that, scoring five tokens at once v(5) = {interpolate(costs.v, 5):.2f} of it."
    )
    if costs.spread > BUSY:
        note += " The machine was busy while the costs were measured, so take the lines with care."
    return note


def _figure(figure: Figure) -> str:
    return encode({"figures": {CHART: figure.as_dict()}})


# ── tables ──


def points(measured: Measured) -> str:
    """A row a point; the fastest one is marked."""
    spots, costs = measured.points, measured.costs
    if not spots or costs is None:
        return empty()
    fastest = max(spots, key=lambda spot: spot.speedup)
    heads = (
        "α set", "γ", "α counted", "tokens a pass, τ", "τ expected", "measured", "predicted", "measured ÷ predicted",
        "repeats",
    )  # fmt: skip
    rows = [_row(spot, costs, spot is fastest) for spot in spots]
    return as_sheet("Every point: speedup over plain decoding, measured and predicted", heads, rows)


def _row(spot: Spot, costs: Costs, fastest: bool) -> list:
    should = predicted(spot, costs)
    speedup = f"{spot.speedup:.2f}×"
    return [
        f"{spot.alpha:g}",
        str(spot.gamma),
        "–" if spot.seen is None else f"{spot.seen:.2f}",
        f"{spot.tau:.2f}",
        f"{expected_tokens(spot.alpha, spot.gamma):.2f}",
        (speedup, BEST) if fastest and spot.speedup > 1 else speedup,
        f"{should:.2f}×",
        f"{spot.speedup / should:.2f}",
        str(len(spot.turns)),
    ]


def thresholds(measured: Measured) -> str:
    """From which α each draft length pays, as predicted and as far as the points can tell."""
    spots, costs = measured.points, measured.costs
    if not spots or costs is None:
        return empty()
    rows = []
    for gamma in sorted({spot.gamma for spot in spots}):
        at = break_even(gamma, costs.c, costs.v)
        said = "never" if at is None else "any α" if at == 0 else f"α = {at:.2f}"
        rows.append([f"{gamma}", said, crossing([spot for spot in spots if spot.gamma == gamma])])
    heads = ("draft length γ", "predicted from", "measured")
    return as_sheet("From which α drafting pays", heads, rows)


def crossing(spots: Sequence[Spot]) -> str:
    """Where points of one γ, in order of α, rise to 1×, in words: points cannot say it more exactly."""
    pays = [spot.speedup >= 1 for spot in spots]
    if all(pays):
        return f"at every α measured, from {spots[0].alpha:g}"
    if not any(pays):
        return f"at none measured, up to {spots[-1].alpha:g}"
    last_slow = max(i for i, paid in enumerate(pays) if not paid)
    if last_slow == len(spots) - 1 or any(pays[:last_slow]):
        return "at some and not at others: too noisy to say; raise the repeats"
    return f"between α = {spots[last_slow].alpha:g} and {spots[last_slow + 1].alpha:g}"


# ── words ──


def summary(measured: Measured) -> str:
    """What the points say together, in a sentence or two."""
    spots, costs = measured.points, measured.costs
    fastest = max(spots, key=lambda spot: spot.speedup)
    shares = [spot.speedup / predicted(spot, costs) for spot in spots]
    best = f"The fastest was α = {fastest.alpha:g} with γ = {fastest.gamma}: {fastest.speedup:.2f}×."
    if fastest.speedup <= 1:
        best = f"No point was faster than plain decoding; the best came to {fastest.speedup:.2f}×."
    if len(spots) == 1:
        return f"{best} Predicted: {predicted(spots[0], costs):.2f}×."
    spread = f"{min(shares):.2f} to {max(shares):.2f}, the middle one {median(shares):.2f}"
    far = max(shares) > FAR or min(shares) < 1 / FAR
    return f"{best} Measured ÷ predicted went from {spread}." + (NOISY if far else "")


# ── files ──


def to_csv(measured: Measured) -> str:
    """A row a point. Numbers in full; texts so that no spreadsheet runs them."""
    out, costs = io.StringIO(), measured.costs
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for spot in measured.points:
        should = predicted(spot, costs)
        about = [harmless(measured.pair), harmless(measured.method), measured.tokens]
        where = [harmless(costs.device), harmless(costs.precision)]
        expected = expected_tokens(spot.alpha, spot.gamma)
        asked = [spot.alpha, spot.gamma, len(spot.turns)]
        seen = [spot.seen, spot.tau, expected, spot.speedup, should, spot.speedup / should]
        writer.writerow([*about, *where, *asked, *seen])
    return out.getvalue()


def to_json(measured: Measured) -> str:
    """Everything, the single runs of each point too, so that another way of adding them up can be tried."""
    costs = measured.costs
    found = [
        {
            "alpha": spot.alpha,
            "gamma": spot.gamma,
            "alpha_seen": spot.seen,
            "tau": spot.tau,
            "expected_tau": expected_tokens(spot.alpha, spot.gamma),
            "speedup": spot.speedup,
            "predicted": predicted(spot, costs),
            "turns": [asdict(turn) for turn in spot.turns],
        }
        for spot in measured.points
    ]
    about = {"pair": measured.pair, "method": measured.method, "max_new_tokens": measured.tokens}
    note = "Drafts were kept by chance, so the text was not the model's and was not kept."
    whole = {"speclens": "any-alpha", "note": note, **about, "costs": asdict(costs), "points": found}
    return json.dumps(whole, indent=1, allow_nan=False)
