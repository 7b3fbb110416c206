"""Puts measured speedups into words, for the page, the command line and the lab: noise, no difference, doubts."""

from collections.abc import Iterable
from datetime import datetime

from engine.errors import quantity
from engine.trace.costs import CostModel
from engine.trace.events import Round
from engine.trace.metrics import Interval, RunComparison
from engine.trace.noise import NOISE, Speedup, about_machine, largest_share

DASH = "–"  # in place of a number that is not known
FAR = 2  # times the context at which costs were measured, from where they say little
NEAR = 1.12  # a speedup that is certainly below it, and above its inverse, makes no difference


def number(value: Interval | float | None, digits: int) -> str:
    """Formats a number, or the middle of an interval."""
    value = value.value if isinstance(value, Interval) else value
    return DASH if value is None else f"{value:.{digits}f}"


def doubt_costs(rounds: Iterable[Round], costs: CostModel | None) -> str:
    """Warns of costs that were measured at a context far shorter than the text; empty for others."""
    longest = max((each.context or 0 for each in rounds), default=0)
    is_far = costs is not None and longest > FAR * costs.context
    return f"measured at a shorter text, and this one has {longest:,} tokens, so trust the clock" if is_far else ""


def day(iso: str) -> str:
    """Words the date of an ISO date and time.

    >>> day("2026-11-26T06:05:04Z")
    '26 November 2026'
    """
    date = datetime.fromisoformat(iso)
    return f"{date.day} {date:%B %Y}"


def impossible(tau: Interval | float | None) -> str:
    """Says which bound a speedup breaks, as the end of a sentence: "faster than 1.80 tokens per pass allow"."""
    return f"faster than {number(tau, 2)} tokens per pass allow"


def speedup_verdict(speedup: Speedup, tau: Interval | float | None, note: str = "") -> str:
    """Words whether drafting was faster. ``note``: how that was measured.

    >>> speedup_verdict(Speedup(1.02), 1.8, "one run each")
    'About as fast as without drafting (1.02×, one run each).'
    >>> speedup_verdict(Speedup(1.3, 0.9, 1.7), 1.8)
    'No certain difference: 1.30×, but the true speedup may be anywhere from 0.90 to 1.70×.'
    """
    aside = f" ({note})" if note else ""
    if speedup.tone == NOISE:
        return f"Noise: this is {impossible(tau)}{aside}. Measure again."
    if speedup.tone != "level":
        return f"{speedup.tone.capitalize()} here: {speedup.value:.2f}× the speed without drafting{aside}."
    low, high = speedup.ends
    if low >= 1 / NEAR and high <= NEAR:
        return f"About as fast as without drafting ({', '.join(filter(None, [f'{speedup.value:.2f}×', note]))})."
    truth = f"the true speedup may be anywhere from {low:.2f} to {high:.2f}×"
    return f"No certain difference: {speedup.value:.2f}×, but {truth}{aside}."


def whole_request(result: RunComparison) -> str:
    """Words the comparison of two whole requests, as a part of a sentence; empty where there is none.

    >>> whole_request(RunComparison(Speedup(1.5, 1.4, 1.6), None, None, None, 1.1, 34))
    '1.10× from Run to the last token; drafting pays from 34 tokens on (predicted)'
    """
    if result.end_to_end is None or not (result.speedup and result.speedup.is_possible):
        return ""
    is_known = result.pays_from and result.speedup.tone == "faster"
    pays = f"drafting pays from {quantity(result.pays_from, 'token')} on (predicted)" if is_known else ""
    note = ", had both read their whole prompts" if result.counts_kept else ""
    return "; ".join(filter(None, [f"{result.end_to_end:.2f}× from Run to the last token{note}", pays]))


def doubts(has_noise: bool, busy: Iterable[float | None]) -> str:
    """Warns of results that are marked as noise and of a busy machine: sentences after a space, or an empty text.

    ``busy``: shares of the cores that other programs took, None where they were not read.
    """
    noise = " Results marked as noise are faster than their tokens per pass allow. Press Measure again."
    machine = about_machine(largest_share(busy))
    return f"{noise if has_noise else ''} {machine}".rstrip()
