"""Weighs drafting by whole requests: the prompt and the first token count, too, not decoding alone. No model, no torch.

`server compare` and `answer` both ask here, so that they cannot say two things about the same seconds.
"""

import math
from dataclasses import dataclass

import numpy as np

from engine.errors import quantity
from engine.tools.bench.metrics import interval, ratio
from engine.trace.noise import Speedup
from engine.trace.speedup_model import pays_from


@dataclass(frozen=True)
class WholeRequest:
    """Drafting beside plain decoding on the same prompts. ``request``: the speedup of whole requests, with answers as
    long as the plain ones; ``first``: the speedup of first tokens, below 1 if drafts delay them; each None where
    nothing was timed. ``firsts`` and ``seconds``: the mean times to the first token and of a request, with drafts
    and without. ``length``: mean tokens of a plain answer. ``pays_from``: tokens of an answer from which drafting pays;
    None unless the first token certainly comes later and decoding is certainly faster."""

    decoding: Speedup | None
    request: Speedup | None
    first: Speedup | None
    firsts: tuple[float, float]
    seconds: tuple[float, float]
    length: float
    pays_from: int | None

    @property
    def is_possible(self) -> bool:
        return self.decoding is None or self.decoding.is_possible

    @property
    def sentence(self) -> str:
        """What a whole request takes with drafts, beside decoding alone."""
        if self.request is None:
            return "Whole requests were not timed."
        if not self.is_possible:
            return "Its times are noise: decoding was faster than its tokens per pass allow."
        (request, plain_request), (first, plain_first) = (map(time_words, pair) for pair in (self.seconds, self.firsts))
        words = f"A whole request takes {request} with drafts and {plain_request} without ({self.request.words}); "
        words += f"its first token comes after {first} and {plain_first}."
        if self.pays_from:
            words += f" So drafting pays for answers from {quantity(self.pays_from, 'token')} on; "
            words += f"these have {self.length:.0f}."
        return words


def weigh(drafting: np.ndarray, plain: np.ndarray, ceiling: float = math.inf) -> WholeRequest:
    """Compares [prompts, 3]: seconds to the first token, tokens after it, and their seconds. ``ceiling``: the largest
    speedup of decoding that is possible."""
    firsts = [side[:, :1] for side in (drafting, plain)]
    paces = [side[:, 2:] / np.maximum(side[:, 1:2], 1) for side in (drafting, plain)]
    after = plain[:, 1:2]  # the same answers on both sides: a longer one would count as a faster request
    requests = [np.hstack([after + 1, first + after * pace]) for first, pace in zip(firsts, paces, strict=True)]
    firsts = [np.hstack([np.ones_like(first), first]) for first in firsts]
    decoding = _speedup(drafting[:, 1:], plain[:, 1:], ceiling)
    first = _speedup(firsts[0], firsts[1])
    length = None
    if first and first.tone == "slower" and decoding and decoding.tone == "faster":
        (a, s), (b, t) = drafting[:, 1:].sum(0), plain[:, 1:].sum(0)
        later = float((firsts[0] - firsts[1]).mean(0)[1])
        length = pays_from(later, t / b, s / a) if a and b else None
    request = _speedup(requests[0], requests[1])
    return WholeRequest(decoding, request, first, _means(firsts), _means(requests), float(after.mean() + 1), length)


def time_words(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _means(sides: list[np.ndarray]) -> tuple[float, float]:
    ours, plain = (float(side[:, 1].mean()) for side in sides)
    return ours, plain


def _speedup(ours: np.ndarray, plain: np.ndarray, ceiling: float = math.inf) -> Speedup | None:
    value = ratio(ours, plain)
    low, high = interval(ours, plain) or (None, None)
    return Speedup(value, low, high, ceiling) if value else None
