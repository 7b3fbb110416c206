"""Renders where a server's time goes: the parts of its step, its speed by draft length, and what follows from them."""

from collections.abc import Sequence

from app.views.figures import Figure, axes, draw_predicted, encode_figures, fill, level, points
from app.views.table import BEST, empty, sheet
from engine.tools.servers.costs import Part, ServerPoint, Split, source, verdict
from engine.trace.speedup_words import DASH

CHARTS = {"server-speeds": "Tokens per second by draft length"}
GAMMAS = range(9)
WAITING = Figure(note="Drawn when a point without drafts and two with drafts are given.")
LOADS = (4, 16)  # users at once that the best γ is named for, where the cost of a row is known


def sentences(parts: Split) -> str:
    return " ".join([*verdict(parts, LOADS), source(parts)])


def parts_table(parts: Split | None) -> str:
    """Writes a row for each part of a step."""
    if parts is None:
        return empty()
    rows = [[words, f"{1000 * part.seconds:.1f} ms", _half(part)] for words, part in parts.known_parts()]
    return sheet("Where a step's time goes, derived", ("part of a step", "time", "95 % interval"), rows)


def _half(part: Part) -> str:
    return DASH if part.half is None else f"± {1000 * part.half:.1f} ms"


def speeds_table(parts: Split | None) -> str:
    """Writes a row for each draft length; empty where the parts are not known."""
    if parts is None or parts.fixed is None:
        return empty()
    plain = parts.speed(0)
    rows = [
        [f"{g}", f"{parts.length(g):.2f}", (f"{parts.speed(g):.1f}", BEST if g == parts.best else ""),
         f"{parts.speed(g) / plain:.2f}×", f"{parts.ceiling(g):.2f}×" if g else DASH]
        for g in sorted({*GAMMAS, parts.best})
    ]  # fmt: skip
    heads = ("γ", "tokens a round", "tokens/s", "× plain decoding", "× if all were accepted")
    return sheet(f"Predicted at each draft length; acceptance {parts.first:.2f}, then {parts.later:.2f}", heads, rows)


def chart(parts: Split | None, measured: Sequence[ServerPoint] = ()) -> str:
    return encode_figures(dict.fromkeys(CHARTS, figure(parts, measured)))


def figure(parts: Split | None, measured: Sequence[ServerPoint] = ()) -> Figure:
    """Charts the speed by draft length; a sentence where the parts are not known."""
    if parts is None or parts.fixed is None:
        return WAITING
    speeds, look = [parts.speed(g) for g in GAMMAS], {"color": "@predicted"}
    data = [draw_predicted("predicted", GAMMAS, speeds, look, hovertemplate="γ = %{x}: %{y:.1f} tokens/s")]
    mark, hover = fill("@run", symbol="diamond", size=13), "γ = %{x}: %{y:.1f} tokens/s, yours"
    x, y = [each.gamma for each in measured], [each.speed for each in measured]
    data.append(points("your points", x, y, mode="markers", marker=mark, hovertemplate=hover))
    layout = axes("γ, tokens drafted in a round", "tokens per second", shapes=[level(parts.speed(0))])
    note = "Diamonds are your points, the curve is the model. Dashed level: plain decoding."
    return Figure(data, layout, note)
