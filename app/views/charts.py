"""Renders the charts of a run as one JSON text. A chart that is missing in it stays on the page as it is."""

from app.views import figures, predictions
from app.views.figures import Figure
from app.views.safe_json import encode
from app.views.tiles import ONCE, speedup
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

WAITING = Figure(note="Drawn when the run has ended.")


def empty() -> str:
    """Replaces every chart of the last run by a note."""
    return _encode({"tokens": Figure(note="Drawn as the tokens come."), **dict.fromkeys(_LATER, WAITING)})


def live(run: Trace | None, baseline: Trace | None = None) -> str | None:
    """The one chart that is drawn during a run; None before the first round.

    Because drawing the others would take time from the measurement.
    """
    if run is None or not run.rounds:
        return None
    return _encode({"tokens": figures.tokens(run, baseline, None)})


def complete(run: Trace | None, baseline: Trace | None = None, how: str = ONCE) -> str:
    """Every chart of a run that has ended. ``how`` names the number of measurements."""
    if run is None or not run.rounds:
        return _encode(dict.fromkeys(("tokens", *_LATER), Figure(note="This run has no tokens.")))
    ratio = speedup(run, baseline)
    return _encode(
        {
            "tokens": figures.tokens(run, baseline, ratio, how),
            **{name: draw(run, baseline, ratio) for name, draw in _LATER.items()},
        }
    )


_LATER = {
    "prediction": predictions.prediction,
    "acceptance": lambda run, baseline, ratio: figures.acceptance(compute_metrics(run)),
    "rounds": lambda run, baseline, ratio: figures.per_round(run, compute_metrics(run)),
    "times": lambda run, baseline, ratio: figures.times(run, compute_metrics(run), baseline),
    "scoring": lambda run, baseline, ratio: predictions.scoring(run, baseline),
    "idealised": lambda run, baseline, ratio: predictions.idealised(run, compute_metrics(run)),
}


def _encode(by_name: dict[str, Figure]) -> str:
    return encode({"figures": {name: figure.as_dict() for name, figure in by_name.items()}})
