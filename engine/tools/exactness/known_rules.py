"""Describes the exercise of writing the rule: its three holes, its run, wrong rules and their laws. Imports no torch.

A round over three words has two drafts after "sun", and the law (exact distribution) of its first three words is
counted; where the round writes fewer, the target goes on alone. A rule that fills the holes wrongly has a law of its
own, and that is how it is recognised, not by its text. The pair was chosen so that these laws are far apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import exp, prod
from operator import mul

from engine.tools.exactness.results import MISTAKES, Law

Row = Sequence[float]
Verdict = tuple[int, list[float]]  # how many drafts are accepted, and the row of the closing token, which adds up to 1
START, DRAFTS, LENGTH = 0, 2, 3  # the word before the round, its drafts, the words that are counted
TARGET = ((0.25, 0.1, 0.65), (0.45, 0.3, 0.25), (0.1, 0.75, 0.15))  # p of the next word, after each word
DRAFT = ((0.35, 0.55, 0.1), (0.1, 0.45, 0.45), (0.35, 0.15, 0.5))


@dataclass(frozen=True)
class KnownRule:
    """``accept``: the chance that a draft is accepted, from its p and q, and p one row later. ``rejected``: the row to
    draw from after a rejection, from p and q there. ``full``: after a full round, from p there, and q and p one row
    earlier. Rows are scaled to 1. ``has_one_u``: one draw decides about all drafts of the round. ``resembles``: a
    public bug like it, where one is known."""

    words: str
    accept: Callable[[float, float, float], float] = lambda p, q, later: p / q
    rejected: Callable[[Row, Row], list[float]] = lambda p, q: [max(x - y, 0.0) for x, y in zip(p, q, strict=True)]
    full: Callable[[Row, Row, Row], Row] = lambda p, q, before: p
    has_one_u: bool = False
    resembles: str = ""


RIGHT_RULE = KnownRule("Accepts when u < p/q, replaces from the residual, and ends a full round with p.")


def _each(function: Callable[[float, float], float]) -> Callable[[Row, Row], list[float]]:
    return lambda p, q: [function(x, y) for x, y in zip(p, q, strict=True)]


def _mistake(name: str, **parts) -> tuple[str, KnownRule]:
    return name, KnownRule(MISTAKES[name].words, **parts)


WRONG_RULES: dict[str, KnownRule] = dict(
    (
        _mistake("q-ignored", accept=lambda p, q, later: p),
        _mistake("ratio-inverted", accept=lambda p, q, later: q / p),
        _mistake("good-enough", accept=lambda p, q, later: p > 0.1),
        _mistake("p-row-late", accept=lambda p, q, later: later / q),
        _mistake("u-shared-by-drafts", has_one_u=True),
        _mistake("residual-absolute", rejected=_each(lambda p, q: abs(p - q))),
        _mistake("bonus-from-q", full=lambda p, q, before: q),
        _mistake("closing-row-early", full=lambda p, q, before: before),
    )
) | {
    "no-residual": KnownRule(
        MISTAKES["no-residual"].words,
        rejected=lambda p, q: list(p),
        resembles="Spec-RL does so on purpose, in training (ShopeeLLM/Spec-RL issue 14, October 2025).",
    ),
    "residual-softmax": KnownRule(
        "The residual goes through a softmax instead of being divided by its sum.",
        rejected=_each(lambda p, q: exp(max(p - q, 0.0))),
        resembles="transformers had this one until pull request 28508 (January 2024).",
    ),
    "residual-swapped": KnownRule(
        "The residual is max(q − p, 0), so tokens come back that q already had too much of.",
        rejected=_each(lambda p, q: max(q - p, 0.0)),
    ),
    "residual-overlap": KnownRule(
        "A rejected draft is replaced from min(p, q), what accepted drafts have covered already.", rejected=_each(min)
    ),
    "replaced-from-q": KnownRule("A rejected draft is replaced from q.", rejected=lambda p, q: list(q)),
    "bonus-from-residual": KnownRule(
        "After a full round the residual is used, although nothing was rejected.",
        full=lambda p, q, before: RIGHT_RULE.rejected(p, q),
    ),
    "no-test": KnownRule("Accepts every draft.", accept=lambda p, q, later: 1.0),
    "no-draw": KnownRule("Accepts when p > q, without a random number.", accept=lambda p, q, later: p > q),
    "u-inverted": KnownRule(
        "Accepts when u > p/q: most often where it should reject.", accept=lambda p, q, later: 1 - min(1.0, p / q)
    ),
}

# The run of lesson 3 (a test compares them): the word before each round, its drafts and their u. The text goes on with
# what the right rule writes. u belongs to a place, so a discarded draft has the u of the next one at its place.
RECORDED: tuple[tuple[int, tuple[int, ...], tuple[float, ...]], ...] = (
    (0, (1, 0, 0), (0.3629, 0.6875, 0.4089)),
    (2, (1, 1, 2), (0.4089, 0.8700, 0.0485)),
    (2, (1, 2), (0.9863, 0.8884)),
    (0, (0,), (0.8884,)),
)


def rows(
    start: int, drafts: Sequence[int], target: Sequence[Row] = TARGET, draft: Sequence[Row] = DRAFT
) -> tuple[list[Row], list[Row]]:
    """Returns p [N+1][V] and q [N][V] of a round with these drafts after the word ``start``."""
    return [target[word] for word in (start, *drafts)], [draft[word] for word in (start, *drafts)[:-1]]


def scale(row: Row) -> list[float]:
    return [share / sum(row) for share in row]


def decide(rule: KnownRule, p: Sequence[Row], q: Sequence[Row], drafts: Sequence[int], u: Sequence[float]) -> Verdict:
    """Decides about the drafts of a round by a known rule."""
    for i, x in enumerate(drafts):
        if not u[0 if rule.has_one_u else i] < rule.accept(p[i][x], q[i][x], p[i + 1][x]):
            return i, scale(rule.rejected(p[i], q[i]))
    return len(drafts), scale(rule.full(p[-1], q[-1], p[-2]))


def law_of(rule: KnownRule = RIGHT_RULE) -> Law:
    """Enumerates the probability of every outcome of the rule. The right rule has the target's own."""
    words = range(len(TARGET))
    law = dict.fromkeys(product(words, repeat=LENGTH), 0.0)
    for drafts in product(words, repeat=DRAFTS):
        p, q = rows(START, drafts)
        drafted = prod(q[i][x] for i, x in enumerate(drafts))
        chances = [min(1.0, rule.accept(p[i][x], q[i][x], p[i + 1][x])) for i, x in enumerate(drafts)]
        reach = [1.0, *accumulate(chances, min if rule.has_one_u else mul), 0.0]  # the chance of so many, or more
        for accepted in range(DRAFTS + 1):
            is_full = accepted == DRAFTS
            row = rule.full(p[-1], q[-1], p[-2]) if is_full else rule.rejected(p[accepted], q[accepted])
            for outcome in law:
                if outcome[:accepted] == drafts[:accepted]:
                    rest = prod(TARGET[outcome[i - 1]][outcome[i]] for i in range(accepted + 1, LENGTH))
                    closing = row[outcome[accepted]] / sum(row)
                    law[outcome] += drafted * (reach[accepted] - reach[accepted + 1]) * closing * rest
    return law
