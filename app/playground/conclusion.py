"""Says how a complete comparison with plain decoding came out."""

from app.views import tiles
from app.views.predictions import steadiness
from engine.trace.trace import Trace

STATUS_KINDS = {"faster": "good", "slower": "slow", "level": "quiet", "noise": "quiet"}


def conclusion(run: Trace, baseline: Trace, **how) -> tuple[str, str]:
    """Returns the status of a complete comparison: its kind and sentence. ``how``: see tiles.verdict."""
    kind = STATUS_KINDS[tiles.speedup(run, baseline, how.get("spread")).tone]
    return kind, tiles.verdict(run, baseline, **how) + steadiness(run, baseline)
