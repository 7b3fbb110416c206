"""Renders the four numbers of a run with a note each, and one sentence that compares it with its baseline."""

from app.views.safe_json import encode
from engine.trace.metrics import Interval, RunMetrics, compare, compute_metrics, largest_cost
from engine.trace.trace import Trace

LEVEL = (0.98, 1.02)  # one run each cannot tell a smaller difference from noise
DASH = "–"
ONCE = "one run each"


def tiles(
    run: Trace | None,
    baseline: Trace | None = None,
    measuring: bool = False,
    recorded: bool = False,
    how: str = ONCE,
) -> str:
    """The tiles as one JSON object: [number, note] for each, two bars of speed, and a tone.

    ``measuring``: the baseline is running or comes next. ``recorded``: both were measured earlier. ``how``: the number
    of measurements, in words.
    """
    if run is None or not run.rounds:
        return encode({"tiles": {name: [DASH, ""] for name in ("alpha", "tau", "speed", "speedup")}, "bars": []})
    ours = compute_metrics(run)
    plain = compute_metrics(baseline) if baseline and baseline.rounds else None
    ratio = speedup(run, baseline)
    return encode(
        {
            "tiles": {
                "alpha": _alpha(ours),
                "tau": [number(ours.tau, 2), "tokens per target pass; plain decoding writes 1"],
                "speed": [number(ours.tokens_per_second, 1), f"{ours.tokens} tokens, reading the prompt not counted"],
                "speedup": _speedup(run, ours, ratio, measuring, recorded, how),
            },
            "bars": _bars(ours.tokens_per_second, plain.tokens_per_second if plain else None),
            "tone": tone(ratio),
        }
    )


def speedup(run: Trace | None, baseline: Trace | None) -> float | None:
    """Decode tokens/s of the run ÷ the baseline's; None unless both have ended without a Stop."""
    traces = (run, baseline)
    if any(trace is None or trace.finished is None or trace.finished.reason == "cancelled" for trace in traces):
        return None
    return compare(run, baseline).speedup


def tone(ratio: float | None) -> str:
    if ratio is None or LEVEL[0] <= ratio <= LEVEL[1]:
        return "level"
    return "faster" if ratio > 1 else "slower"


def verdict(run: Trace, baseline: Trace, recorded: bool = False, how: str = ONCE) -> str:
    """One sentence on the speedup; below 1× it names the largest cost. Empty without a speedup."""
    ratio = speedup(run, baseline)
    if ratio is None:
        return ""
    if tone(ratio) == "faster":
        when = "measured then" if recorded else "measured just now"
        return f"{ratio:.2f}× as fast as the same engine without drafting: {_spent(run, baseline)} ({when}, {how})."
    cost = largest_cost(compute_metrics(run), compute_metrics(baseline)).sentence
    if tone(ratio) == "level":
        return f"About as fast as without drafting ({ratio:.2f}×, {how}). {cost if ratio < 1 else ''}".strip()
    spent = _spent(run, baseline)
    return f"Slower here: {ratio:.2f}× the speed of the same engine without drafting: {spent}. {cost}"


def _spent(run: Trace, baseline: Trace) -> str:
    """The time of both runs: of the text where both wrote the same number of tokens, else per token."""
    ours, plain = compute_metrics(run), compute_metrics(baseline)
    rates = [1 / numbers.tokens_per_second for numbers in (ours, plain)]
    if ours.tokens == plain.tokens:
        took, plainly = (rate * ours.tokens for rate in rates)
        return f"{ours.tokens} tokens took {took:.1f} s instead of {plainly:.1f} s"
    return f"a token took {1000 * rates[0]:.0f} ms instead of {1000 * rates[1]:.0f} ms"


def _alpha(numbers: RunMetrics) -> list[str]:
    if numbers.alpha is None:
        return [DASH, "no draft was tested"]
    accepted, rejected = numbers.counts["accepted"], numbers.counts["rejected"]
    return [f"{numbers.alpha.value:.2f}", f"{accepted} of {accepted + rejected} tested drafts were accepted"]


def _speedup(
    run: Trace, numbers: RunMetrics, ratio: float | None, measuring: bool, recorded: bool, how: str
) -> list[str]:
    if ratio is not None:
        when = "recorded with it" if recorded else "measured just now"
        return [f"{ratio:.2f}×", f"against no drafting, {when}, {how}"]
    if measuring:
        when = "being measured" if run.finished else "measured right after this run"
        return ["…", f"the baseline, the same without drafting, is {when}"]
    if run.started.config.get("method") == "none" or not any(numbers.gammas):
        return [DASH, "nothing was drafted: this is the baseline"]
    return [DASH, "recorded without a complete baseline" if recorded else "stopped before both runs had ended"]


def _bars(ours: float | None, plain: float | None) -> list[dict]:
    """Two bars on one scale: longer is faster."""
    fastest = max(ours or 0, plain or 0) or 1
    rows = [("this run", ours), ("no drafting", plain)]
    return [
        {"label": label, "value": f"{speed:.1f} tok/s", "width": round(speed / fastest, 3)}
        for label, speed in rows
        if speed
    ]


def number(value: Interval | float | None, digits: int) -> str:
    """A measured number in words for people."""
    value = value.value if isinstance(value, Interval) else value
    return DASH if value is None else f"{value:.{digits}f}"
