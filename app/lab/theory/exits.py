"""Charts recorded early exits: drafting with the lower layers of the target itself."""

import json

from app.views import figures
from engine.errors import percent, quantity
from engine.files import ASSETS

EXITS = {"exits": "Why not just its lower layers?"}


def recorded_exits() -> str:
    path = ASSETS / "data" / "exits.json"
    return figures.encode_figures({"exits": draw_exits(json.loads(path.read_text(encoding="utf-8")))})


def draw_exits(record: dict) -> figures.Figure:
    """Charts how often each layer of a target says the next word already, and how fast leaving there would be.
    ``record`` is what `python -m engine lab exits --out` stores."""
    untrained, data = [each for each in record["exits"] if not each["is_trained"]], []
    for name, key, colour, symbol in (
        ("agrees with the whole model", "agreement", "@run", "circle"),
        ("predicted speedup at γ = 1", "predicted", "@predicted", "square"),
    ):
        x, y = [each["layers"] for each in untrained], [each[key] for each in untrained]
        mark = {"size": 7, "color": colour, "symbol": symbol}
        data.append(figures.draw_line(name, x, y, mark, hovertemplate="layers: %{x}, %{y:.2f}"))
    best = max(each["predicted"] for each in untrained[:-1])
    note = "After each layer its state is read as if it were the last. Drafting with these layers alone would come to "
    note += f"{best:.2f}× plain decoding at best."
    for head in (each for each in record["exits"] if each["is_trained"]):
        star, both = {"size": 15, "symbol": "star", "color": "@ink"}, [head["agreement"], head["predicted"]]
        layers = [head["layers"]] * 2
        data.append(figures.points("both with an exit head", layers, both, mode="markers", marker=star))
        note += f" The stars: a small head trained to read the state after {quantity(head['layers'], 'layer')} agrees "
        note += f"{percent(head['agreement'])} of the time, at a cost of c = {head['c']:.2f}, which would come to "
        note += f"{head['predicted']:.2f}×."
    layout = figures.axes("layers that have run", "share of words; × plain", shapes=[figures.level(1.0)])
    return figures.Figure(data, layout, f"{note} Recorded on {record['device']} with {record['pair']}.")
