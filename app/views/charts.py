"""The charts of a run as one JSON text. A chart that is left out stays as it was drawn."""

from app.views import figures, predictions
from app.views.encode import encode
from app.views.figures import Figure
from app.views.summary import ONCE, speedup
from engine.statistics import statistics
from engine.trace import Trace

WAITING = Figure(note="Drawn when the run has ended.")


def blank() -> str:
    """A run begins: nothing of the last one may stay."""
    return _encode({"tokens": Figure(note="Drawn as the tokens come."), **dict.fromkeys(_LATER, WAITING)})


def live(run: Trace | None, baseline: Trace | None = None) -> str | None:
    """The one chart that follows a run; the rest would cost time on the machine that is being measured."""
    if run is None or not run.rounds:
        return None
    return _encode({"tokens": figures.tokens(run, baseline, None)})


def whole(run: Trace | None, baseline: Trace | None = None, how: str = ONCE) -> str:
    """Every chart, once the run is over. ``how``: what was measured."""
    if run is None or not run.rounds:
        return _encode(dict.fromkeys(("tokens", *_LATER), Figure(note="This run made no token.")))
    ratio = speedup(run, baseline)
    return _encode(
        {
            "tokens": figures.tokens(run, baseline, ratio, how),
            **{name: draw(run, baseline, ratio) for name, draw in _LATER.items()},
        }
    )


_LATER = {
    "prediction": predictions.prediction,
    "acceptance": lambda run, baseline, ratio: figures.acceptance(statistics(run)),
    "rounds": lambda run, baseline, ratio: figures.per_round(run, statistics(run)),
    "times": lambda run, baseline, ratio: figures.times(run, statistics(run), baseline),
    "scoring": lambda run, baseline, ratio: predictions.scoring(run, baseline),
    "idealised": lambda run, baseline, ratio: predictions.idealised(run, statistics(run)),
}


def _encode(drawn: dict[str, Figure]) -> str:
    return encode({"figures": {name: figure.as_dict() for name, figure in drawn.items()}})
