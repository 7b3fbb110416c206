"""Renders the charts of a run as one JSON text. A chart that is missing in it stays on the page as it is."""

from app.views import figures, predictions
from app.views.figures import Figure, encode_figures
from app.views.tiles import ONCE, speedup
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

WAITING = Figure(note="Drawn when the run has ended.")


def empty() -> str:
    """Replaces every chart of the last run by a note."""
    return encode_figures({"tokens": Figure(note="Drawn as the tokens come."), **dict.fromkeys(_LATER, WAITING)})


def live(run: Trace | None, baseline: Trace | None = None) -> str | None:
    """The one chart that is drawn during a run; None before the first round.

    Because drawing the others would take time from the measurement.
    """
    if run is None or not run.rounds:
        return None
    return encode_figures({"tokens": figures.tokens(run, baseline, None)})


def complete(run: Trace | None, baseline: Trace | None = None, how: str = ONCE) -> str:
    """Every chart of a run that has ended. ``how`` names the number of measurements."""
    if run is None or not run.rounds:
        return encode_figures(dict.fromkeys(("tokens", *_LATER), Figure(note="This run has no tokens.")))
    ratio = speedup(run, baseline)
    later = {name: draw(run, baseline, ratio) for name, draw in _LATER.items()}
    return encode_figures({"tokens": figures.tokens(run, baseline, ratio, how)} | later)


_LATER = {
    "prediction": predictions.prediction,
    "acceptance": lambda run, baseline, ratio: figures.acceptance(compute_metrics(run)),
    "rounds": lambda run, baseline, ratio: figures.per_round(run, compute_metrics(run)),
    "times": lambda run, baseline, ratio: figures.times(run, compute_metrics(run), baseline),
    "scoring": lambda run, baseline, ratio: predictions.scoring(run, baseline),
    "idealised": lambda run, baseline, ratio: predictions.idealised(run, compute_metrics(run)),
}
