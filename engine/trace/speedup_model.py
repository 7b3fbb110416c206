"""Predicts speedups from acceptance and costs: formulas only, no model, no torch.

Costs are relative to one plain target step: c for one draft step, v(W) for scoring W tokens at once (v(1) = 1).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

MOST_BY_DEFAULT = 16  # requests that share a pass; with more each would wait too long for its next token


def expected_tokens(alpha: float, gamma: int) -> float:
    """Returns the tokens per round if each draft is accepted with chance alpha: (1 − α^(γ+1)) / (1 − α) (Leviathan
    2023, eq. 1)."""
    if alpha >= 1.0:
        return gamma + 1.0
    return (1.0 - alpha ** (gamma + 1)) / (1.0 - alpha)


def pays_from(later: float, plain: float, drafting: float) -> int | None:
    """Returns how many tokens an answer needs until drafting pays, if its first token comes ``later`` seconds later and
    each further one takes ``drafting`` seconds instead of ``plain``; None if it is not later, or never pays.

    >>> pays_from(0.29, 0.1, 0.05)
    6
    """
    return math.ceil(later / (plain - drafting)) if later > 0 and plain > drafting else None


def interpolate(v: Mapping[Any, float], width: float) -> float:
    """Returns v at any width: linear between measured widths, and beyond them along the last slope, or the mean slope
    where that is steeper: a wide pass that happened to be cheap says nothing of wider ones."""
    if width in v:
        return v[width]
    widths = sorted(v)
    if len(widths) == 1:
        return v[widths[0]]
    right = next((i for i, w in enumerate(widths) if w > width), len(widths) - 1)
    low, high = widths[max(right - 1, 0)], widths[max(right, 1)]
    if width > high:
        first = widths[0]
        slope = max((v[high] - v[low]) / (high - low), (v[high] - v[first]) / (high - first), 0.0)
        return v[high] + slope * (width - high)
    return v[low] + (v[high] - v[low]) * (width - low) / (high - low)


def shared_costs(c: float, v: Mapping[int, float], rows: int) -> tuple[float, dict[int, float]]:
    """Returns c and v of one of ``rows`` requests that share a pass, the others with one token each. A cost of 1 is
    still a plain token's: now 1/rows of a plain pass over all. So a further token in the pass costs rows/v(rows) times
    as much as alone, and so does a draft step, because it is not shared.

    >>> shared_costs(0.1, {1: 1.0, 11: 2.0}, 6)     # six plain tokens for 1.5: four a plain step
    (0.4, {1: 1.0, 2: 1.4000000000000004, 6: 3.0})
    """
    if rows == 1:
        return c, dict(v)
    others, rate = rows - 1, rows / interpolate(v, rows)
    widths = sorted({1, 2, *(w - others for w in v if w - others > 2)})
    return c * rate, {w: rate * interpolate(v, others + w) - others for w in widths}


def best_batch(v: Mapping[int, float]) -> int:
    """Returns how many plain requests should share a pass: doubled as long as that yields a tenth more tokens a second.

    >>> best_batch({1: 1.0, 2: 1.1, 4: 1.3, 8: 2.4})
    4
    """
    rows = 1
    while 2 * rows <= MOST_BY_DEFAULT and 2 * interpolate(v, rows) >= 1.1 * interpolate(v, 2 * rows):
        rows *= 2
    return rows


def idealised_speedup(alpha: float, gamma: int, c: float, v: Mapping[int, float]) -> float:
    """Returns the speedup from α alone: expected tokens ÷ (γ·c + v(γ+1))."""
    return expected_tokens(alpha, gamma) / (gamma * c + interpolate(v, gamma + 1))


def predicted_speedup(rounds: Sequence[tuple[float, float, int]], v: Mapping[int, float]) -> float:
    """Returns the speedup from what happened: Σ emitted ÷ Σ (draft steps · c + v(N + 1)) over rounds of (emitted, draft
    steps · c, N)."""
    cost = sum(drafting + interpolate(v, drafted + 1) for _, drafting, drafted in rounds)
    return sum(emitted for emitted, _, _ in rounds) / cost if cost else float("nan")


def best_gamma(alpha: float, c: float, v: Mapping[int, float], limit: int) -> int:
    """Returns the draft length (0 = none) with the highest idealised speedup; the shorter one on a tie."""
    return best_length([alpha] * limit, c, v)


def best_length(alphas: Sequence[float], c: float, v: Mapping[int, float], at_once: bool = False) -> int:
    """Finds `best_gamma` where acceptance depends on depth: alphas[i] is the chance of draft i + 1, given those before
    it. ``at_once``: one draft step gives them all."""
    best, best_rate, tokens, reached = 0, 1.0, 1.0, 1.0
    for gamma, alpha in enumerate(alphas, start=1):
        reached *= alpha
        tokens += reached
        rate = tokens / ((1 if at_once else gamma) * c + interpolate(v, gamma + 1))
        if rate > best_rate:
            best, best_rate = gamma, rate
    return best
