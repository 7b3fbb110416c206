"""Renders the charts of a run as one JSON text for each result tab."""

from app.views import figures, predictions, trees
from app.views.figures import Figure, encode_figures
from app.views.tiles import ONE_EACH, Spread, sharing_sentence, speedup
from engine.config import LOSSY
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

_OF_ONE_ALONE = ("prediction", "idealised")
# The charts of each tab.
TABS = {
    "race": {"tokens": "Tokens against time", "prediction": "Measured and predicted speedup"},
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
    ratio = speedup(run, baseline, spread)
    nothing = dict.fromkeys(_OF_ONE_ALONE, Figure(note=sharing_sentence(run))) if run.others else {}
    lossy = LOSSY if run.started.is_lossy else ""
    return [
        encode_figures({name: nothing.get(name) or _DRAW[name](run, baseline, ratio, how) for name in tab}, lossy)
        for tab in TABS.values()
    ]


_DRAW = {
    "tokens": figures.draw_tokens,
    "prediction": lambda run, baseline, ratio, how: predictions.draw_prediction(run, baseline, ratio),
    "acceptance": lambda run, baseline, ratio, how: figures.draw_acceptance(run, compute_metrics(run)),
    "rounds": lambda run, baseline, ratio, how: figures.draw_rounds(run, compute_metrics(run)),
    "times": lambda run, baseline, ratio, how: figures.draw_times(run, compute_metrics(run), baseline),
    "scoring": lambda run, baseline, ratio, how: predictions.draw_scoring(run, baseline),
    "idealised": lambda run, baseline, ratio, how: predictions.draw_idealised(run, compute_metrics(run)),
    "sizes": lambda run, baseline, ratio, how: trees.draw_sizes(run),
    "ranks": lambda run, baseline, ratio, how: trees.draw_ranks(run),
}
