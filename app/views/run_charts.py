"""Renders the charts of a run as one JSON text for each result tab."""

from app.views import figures, predictions, trees
from app.views.figures import Figure, encode_figures
from app.views.tiles import ONE_EACH, Spread, sharing_sentence, speedup
from engine.config import LOSSY
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

# The charts of each tab.
TABS = {
    "race": {
        "tokens": "Tokens against time",
        "prediction": "Measured and predicted speedup",
        "request": "The whole request",
    },
    "acceptance": {"acceptance": "Acceptance by draft position", "rounds": "Tokens per round"},
    "time": {
        "times": "Time per round",
        "scoring": "Scoring W tokens at once, v(W)",
        "idealised": "Which draft length should pay",
    },
    "tree": {"sizes": "Rounds by size of the tree", "ranks": "Acceptance by depth and rank of a child"},
}


def complete(
    run: Trace | None, baseline: Trace | None = None, how: str = ONE_EACH, spread: Spread | None = None
) -> list[str]:
    """Returns every chart of a run that has ended, a text for each tab. ``how`` names the number of measurements;
    ``spread``: their interval."""
    if run is None or not run.rounds:
        nothing = Figure(note="This run has no tokens." if run else "Nothing has run yet.")
        return [encode_figures(dict.fromkeys(tab, nothing)) for tab in TABS.values()]
    ratio, metrics = speedup(run, baseline, spread), compute_metrics(run)
    shared = Figure(note=sharing_sentence(run)) if run.others else None
    drawn = {
        "tokens": figures.draw_tokens(run, baseline, ratio, how),
        "prediction": shared or predictions.draw_prediction(run, baseline, ratio),
        "request": figures.draw_request(run, baseline, ratio),
        "acceptance": figures.draw_acceptance(run, metrics),
        "rounds": figures.draw_rounds(run, metrics),
        "times": figures.draw_times(run, metrics, baseline),
        "scoring": predictions.draw_scoring(run, baseline),
        "idealised": shared or predictions.draw_idealised(run, metrics),
        "sizes": trees.draw_sizes(run),
        "ranks": trees.draw_ranks(run),
    }
    lossy = LOSSY if run.started.is_lossy else ""
    return [encode_figures({name: drawn[name] for name in tab}, lossy) for tab in TABS.values()]
