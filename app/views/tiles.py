"""Renders the four numbers of a run with a note each, and one sentence that compares it with its baseline."""

from dataclasses import replace
from typing import Any

from app.views import lanes
from app.views.safe_json import encode
from app.views.totals import Totals
from engine.config import AUTO, constraint_methods
from engine.errors import percent, quantity
from engine.trace.metrics import PARTS, compare, compute_metrics, largest_cost, others_share
from engine.trace.noise import NOISE, Speedup, about_machine
from engine.trace.speedup_words import DASH, number, speedup_verdict
from engine.trace.trace import Trace

LOW_ACCEPTANCE = 0.35  # a share of accepted drafts below which they hardly pay at any cost
ADVICE = {
    "draft": "try fewer drafts a round (γ), or a method that guesses more cheaply",
    "verify": "try fewer drafts a round (γ)",
    "accept": "try fewer drafts a round (γ)",
    "host": "try a larger model, for which this weighs less",
}
Spread = tuple[float, float]  # the 95 % interval of repeated pairs
ONE_EACH = "one run each"


def tiles(
    run: Trace | None,
    baseline: Trace | None = None,
    measuring: bool = False,
    recorded: bool = False,
    how: str = ONE_EACH,
    spread: Spread | None = None,
    others: int = 0,
) -> str:
    """Returns a line of the stage's value: [number, note] for each number, the baseline's lane, a note on it, and a
    tone.

    ``measuring``: the baseline is running or comes next. ``recorded``: both were measured earlier. ``how``: the number
    of measurements, in words. ``others``: runs that came before the baseline was measured.
    """
    if run is None or not run.rounds:
        return encode(_numbers(Totals(), measuring))
    ratio = speedup(run, baseline, spread)
    line = _numbers(Totals.from_trace(run), measuring, others)
    if "shared" in line:
        line["tiles"]["speedup"][1] = _alone(run) or line["tiles"]["speedup"][1]
    else:
        line["tiles"]["speedup"] = _speedup(run, ratio, measuring, recorded, how)
    note = lanes.note(run, baseline) if ratio is not None else ""
    return encode(line | {"plain": lanes.lane(baseline), "note": note, "tone": ratio.tone if ratio else ""})


def _alone(run: Trace) -> str:
    """Says what a shared run would gain by itself, by the costs in its trace; empty without them or before its end."""
    costs = compute_metrics(run).costs
    if not (costs and run.finished and run.has_drafts):
        return ""
    predicted = costs.predict((len(r.emitted), r.draft_steps, len(r.parents), r.drafter) for r in run.rounds)
    return f"alone about {predicted:.1f}× (predicted)"


def live(run: Totals, baseline: Totals, measuring: bool) -> str:
    """Returns this line for a run that goes on, or whose baseline does."""
    line = _numbers(run, measuring)
    if run.rounds and "shared" not in line:
        line["tiles"]["speedup"] = _to_come(run) if measuring else list(_NOTHING_DRAFTED)
    return encode(line | {"plain": lanes.so_far(baseline), "note": "", "tone": ""})


def _numbers(run: Totals, measuring: bool, others: int = 0) -> dict:
    """Returns the part of the line that needs no baseline. ``others`` is as for `tiles`."""
    line = {"type": "numbers", "measuring": measuring}
    if not run.rounds:
        return line | {"tiles": {name: [DASH, ""] for name in ("alpha", "tau", "speed", "speedup")}}
    shared = f", shared with {quantity(run.others, 'other run')}" if run.others else ""
    clock = "reading the prompt not counted"
    if run.started and run.started.server:
        clock = "after the first, by the clock of the client"
    numbers = {
        "alpha": _alpha(run),
        "tau": [number(run.tau, 1), f"τ = {number(run.tau, 2)} tokens per target pass; plain decoding writes 1"],
        "speed": [
            number(run.tokens_per_second, 1),
            f"{quantity(run.tokens + (run.hidden_tokens or 0), 'token')}, {clock}{shared}",
        ],
    }
    if run.started and run.started.constraint:
        numbers["grammar"] = _from_grammar(run)
    if beside := run.others or others:
        numbers["speedup"] = ["Not measured", f"ran beside {quantity(beside, 'other run')}"]
        line |= {"shared": True, "measuring": False}
    return line | {"tiles": numbers}


def speedup(run: Trace | None, baseline: Trace | None, spread: Spread | None = None) -> Speedup | None:
    """Returns decode tokens/s of the run ÷ the baseline's; None unless both have ended without a Stop. ``spread``: the
    interval that repeated pairs had, in place of the one that the times of the rounds suggest."""
    traces = (run, baseline)
    if any(trace is None or trace.finished is None or trace.finished.reason == "cancelled" for trace in traces):
        return None
    measured = compare(run, baseline).speedup
    if measured is None or spread is None:
        return measured
    return replace(measured, low=min(spread[0], measured.value), high=max(spread[1], measured.value))


def machine(run: Trace, baseline: Trace | None) -> str:
    """Returns a sentence on other programs that computed during a run or its baseline; empty for a quiet machine."""
    return about_machine(others_share(run, baseline))


def sharing_sentence(run: Trace, others: int = 0) -> str:
    """Says why a run has no speedup; empty for one that had the device to itself. ``others`` is as for `tiles`."""
    if run.others:
        return f"{quantity(run.others, 'other run')} shared the model, so this clock says nothing about drafting."
    if others:
        return "Another run came before plain decoding was measured, so there is no speedup."
    return ""


def verdict(
    run: Trace, baseline: Trace, recorded: bool = False, how: str = ONE_EACH, spread: Spread | None = None
) -> str:
    """Returns one sentence on the speedup; below 1× it names the largest cost. Empty without a speedup."""
    ratio = speedup(run, baseline, spread)
    if ratio is None:
        return ""
    if ratio.tone == "slower" and not run.has_drafts:
        return f"Nothing was drafted, so this says nothing about drafting: {_compare_times(run, baseline)} ({how})."
    if ratio.tone == "slower":
        return f"{speedup_verdict(ratio, None, how)} {_cause(run, baseline)}"
    how = f"{'measured then' if recorded else 'measured just now'}, {how}"
    if ratio.tone == "faster":
        return f"{_compare_times(run, baseline).capitalize()} without drafting ({how})."
    return speedup_verdict(ratio, compute_metrics(run).tau, how)


def _cause(run: Trace, baseline: Trace) -> str:
    """Names one cause of a slowdown, and what to try; the milliseconds are in the Time tab."""
    ours = compute_metrics(run)
    if run.started.server:
        return "The server does not say where its time went."
    if ours.alpha and ours.alpha.value < LOW_ACCEPTANCE:
        held = f"Only {percent(ours.alpha.value)} of the tested guesses were accepted"
        return f"{held}: try another method, or a text that repeats itself."
    part = largest_cost(ours, compute_metrics(baseline)).part
    return f"Most of the extra time went into {PARTS[part]}: {ADVICE[part]}."


def _compare_times(run: Trace, baseline: Trace) -> str:
    """Words the time of both runs: of the text where both wrote the same number of tokens, else per token."""
    ours, plain = compute_metrics(run), compute_metrics(baseline)
    speeds: list[Any] = [numbers.tokens_per_second for numbers in (ours, plain)]  # known, because the speedup is
    rates = [1 / speed for speed in speeds]
    if ours.tokens == plain.tokens:
        took, plainly = (rate * ours.tokens for rate in rates)
        digits = 1 if min(took, plainly) >= 10 else 2
        return f"{quantity(ours.tokens, 'token')} took {took:.{digits}f} s instead of {plainly:.{digits}f} s"
    return f"a token took {1000 * rates[0]:.0f} ms instead of {1000 * rates[1]:.0f} ms"


_NOTHING_DRAFTED = DASH, "nothing was drafted: this is the baseline"


def _to_come(run: Totals | Trace) -> list[str]:
    when = "being measured" if run.finished else "measured right after"
    return ["…", f"the same without drafting is {when}"]


def _alpha(run: Totals) -> list[str]:
    if run.alpha is None:
        server = run.started.server if run.started else None
        return [DASH, server.why_uncounted if server and not server.has_counts else "no draft was tested"]
    words = f"α = {run.alpha:.2f}: {run.accepted} of {run.tested} tested drafts were accepted"
    if run.discarded:
        words += f"; {run.discarded} more came after a rejected one, never tested"
    return [percent(run.alpha), words]


def _from_grammar(run: Totals) -> list[str]:
    """Counts the tokens that had to come; accepted drafts alone, because a closing token is drawn."""
    words = f"{run.from_grammar} of {quantity(run.tokens, 'token')} came from the grammar: it left no other text there"
    if not run.from_grammar:
        words = "the grammar drafts only with the methods auto and grammar"
        if run.started and run.started.method in (AUTO, *constraint_methods()):
            words = "no token came from the grammar: it never left only one text"
    if run.forbidden:
        cut = "1 draft was forbidden" if run.forbidden == 1 else f"{run.forbidden} drafts were forbidden"
        words += f"; {cut} and not scored"
    return [f"{run.from_grammar} of {run.tokens}", words]


def _speedup(run: Trace, ratio: Speedup | None, measuring: bool, recorded: bool, how: str) -> list[str]:
    when = "recorded with it" if recorded else "measured just now"
    if ratio is not None and ratio.tone == NOISE:
        return [NOISE, f"more than τ = {number(compute_metrics(run).tau, 2)} allows: measure again"]
    if ratio is not None:
        low, high = ratio.ends
        words = "compared with plain decoding" if ratio.tone != "level" else f"{low:.2f} to {high:.2f}×, so not certain"
        return [f"{ratio.value:.2f}×", f"{words}, {when}, {how}"]
    if measuring:
        return _to_come(run)
    if run.started.prefix:
        return [DASH, "a branch is not measured against plain decoding"]
    if run.started.server:
        return [DASH, "open a recording without drafts, too" if run.has_drafts else "its stream shows no drafts"]
    if run.started.method == "none" or not run.has_drafts:
        return list(_NOTHING_DRAFTED)
    return [DASH, "recorded without a complete baseline" if recorded else "stopped before both runs had ended"]
