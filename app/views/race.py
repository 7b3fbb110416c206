"""Renders two runs as a race for the page to play: the times at which each lane's rounds ended, and their texts.

Both were measured alone, one after the other, and start together here. At temperature 0 both write the same text, so
they race to its end. Samples race on time per token, because a shorter text would win by being short.
"""

from app.views.figures import sampled
from app.views.player_feed import TITLES
from app.views.safe_json import encode, short
from app.views.tiles import speedup
from engine.trace.metrics import Divergence, first_divergence
from engine.trace.trace import Trace

NO_RACE = "Once both lanes are measured they are played here side by side."
SAME_CLOCK = "Measured one after the other, played together from their clocks. Finishing sooner is a shorter bar."


def empty(note: str = NO_RACE) -> str:
    return encode({"lanes": [], "note": note})


def race(run: Trace | None, baseline: Trace | None, spread: str = "") -> str:
    """``spread``: a sentence on the spread of repeated measurements."""
    ratio = speedup(run, baseline)
    if ratio is None:
        return empty("There is no race without a whole run and its whole baseline." if run else NO_RACE)
    per_token = sampled(run) or len(run.emitted) != len(baseline.emitted)
    parted = None if sampled(run) else first_divergence(run, baseline)
    lanes = [_lane("no drafting", "plain", baseline), _lane(_method(run), "run", run)]
    return encode(
        {
            "lanes": lanes,
            "unit": "token" if per_token else "run",
            "note": " ".join(
                filter(None, (_why(run, baseline) if per_token else SAME_CLOCK, _parting(parted), spread))
            ),
            "result": _result(lanes, ratio, per_token),
            "parted": parted.position if parted else None,
        }
    )


def _method(run: Trace) -> str:
    method = str(run.started.config.get("method"))
    return f"with {TITLES.get(method, method)}"


def _lane(name: str, kind: str, trace: Trace) -> dict:
    """``ends`` and ``counts`` [rounds]: seconds from the first round's start to each round's end, tokens by then."""
    start, count, counts = trace.rounds[0].start, 0, []
    for event in trace.rounds:
        count += len(event.emitted)
        counts.append(count)
    return {
        "name": name,
        "kind": kind,
        "ends": [short(event.end - start) for event in trace.rounds],
        "counts": counts,
        "texts": ["".join(token.text for token in event.emitted) for event in trace.rounds],
        "seconds": short(trace.rounds[-1].end - start),
    }


def _why(run: Trace, baseline: Trace) -> str:
    lengths = f"{len(run.emitted)} and {len(baseline.emitted)} tokens"
    cause = (
        f"Above temperature 0 the two lanes are different samples of the same distribution, here {lengths}"
        if sampled(run)
        else f"The two texts part and have different lengths, {lengths}"
    )
    return f"{cause}. A shorter text would win by being short, so they race on time per token."


def _parting(parted: Divergence | None) -> str:
    return f"From token {parted.position + 1} on the two texts differ (marked)." if parted else ""


def _result(lanes: list[dict], ratio: float, per_token: bool) -> str:
    plain, ours = lanes
    if per_token:
        spent = [f"{1000 * lane['seconds'] / lane['counts'][-1]:.1f} ms per token" for lane in (ours, plain)]
    else:
        spent = [f"{lane['seconds']:.2f} s" for lane in (ours, plain)]
    word = "faster" if ratio >= 1 else "slower"
    factor = ratio if ratio >= 1 else 1 / ratio
    return f"{factor:.2f}× {word}: {spent[0]} with drafting, {spent[1]} without."
