"""Renders how often each layer of a target says the next word already, and how fast leaving there would be."""

import json
from pathlib import Path

from app.views.figures import Figure, axes, draw_line, encode_figures, level, points
from engine.errors import quantity
from engine.files import ASSETS

RECORDED = ASSETS / "data" / "exits.json"
CHARTS = {"exits": "Why not just its lower layers?"}


def load_recorded(path: Path = RECORDED) -> str:
    return encode_figures({"exits": figure(json.loads(path.read_text(encoding="utf-8")))})


def figure(record: dict) -> Figure:
    """Charts early exits. ``record`` is what `python -m engine lab exits --out` stores."""
    untrained = [each for each in record["exits"] if not each["is_trained"]]
    layers = [each["layers"] for each in untrained]
    data = [
        _line("agrees with the whole model", layers, [each["agreement"] for each in untrained], "@run", "circle"),
        _line("predicted speedup at γ = 1", layers, [each["predicted"] for each in untrained], "@predicted", "square"),
    ]
    best = max(untrained[:-1], key=lambda each: each["predicted"])
    note = (
        "After each layer its state is read as if it were the last. Drafting with these layers alone would come to "
        f"{best['predicted']:.2f}× plain decoding at best."
    )
    for head in (each for each in record["exits"] if each["is_trained"]):
        star = {"size": 15, "symbol": "star", "color": "@ink"}
        both = [head["agreement"], head["predicted"]]
        data.append(points("both with an exit head", [head["layers"]] * 2, both, mode="markers", marker=star))
        note += (
            f" The stars: a small head trained to read the state after {quantity(head['layers'], 'layer')} agrees "
            f"{head['agreement']:.0%} of the time, at a cost of c = {head['c']:.2f}, which would come to "
            f"{head['predicted']:.2f}×."
        )
    where = f" Recorded on {record['device']} with {record['pair']}."
    return Figure(data, axes("layers that have run", "share of words; × plain", shapes=[level(1.0)]), note + where)


def _line(name: str, x: list[int], y: list[float], colour: str, symbol: str) -> dict:
    mark = {"size": 7, "color": colour, "symbol": symbol}
    return draw_line(name, x, y, mark, hovertemplate="layers: %{x}, %{y:.2f}")
