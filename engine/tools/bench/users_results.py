"""Computes what many users at once get, plain and with each method, and writes it as tables. No model, no torch."""

import math
import operator
import statistics
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from engine.tools.bench.metrics import interval, ratio, show, table
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.winners import break_even
from engine.trace.costs import CostModel
from engine.trace.noise import PLAIN, Speedup, ceiling, largest_share
from engine.trace.speedup_model import shared_costs

_CHEAPEST_PASS = 0.2  # times a plain one; no pass that also scores drafts is nearly as cheap


@dataclass(frozen=True)
class PassTime:
    """How fast the passes were that all users shared."""

    speed: float  # seconds of a plain pass with as many users ÷ seconds of a pass with drafts
    low: float | None  # ``low`` and ``high``: its 95 % interval over repeats
    high: float | None
    drafted: float  # drafts per round in these passes
    drafting: float  # the share of the rounds that drafted

    def speedup(self, tau: float, share: float, busy: float | None = None) -> Speedup:
        """Returns the speedup over plain decoding of answers with ``tau`` tokens per pass whose rounds draft ``share``
        times as much as those that were timed. Only the beginnings of answers are timed, because then every user
        writes. Easy texts end early but still count there, so ``tau`` has to come from whole answers."""

        def gain(speed: float) -> float:
            return tau / max(_CHEAPEST_PASS, 1 + (1 / speed - 1) * share)

        ends = (None if end is None else gain(end) for end in (self.low, self.high))
        return Speedup(gain(self.speed), *ends, ceiling(tau), busy)


@dataclass(frozen=True)
class Served:
    """All prompts answered once."""

    tokens: int
    seconds: float
    # Tokens, seconds, and the cost model's prediction in plain steps, over the rounds in which every user got tokens
    # after all had got some in the round before.
    writing: tuple[int, float, float]
    ttft: tuple[float, ...]  # seconds from each request to its first token
    rounds: int
    drafted: int
    accepted: int
    tested: int  # drafts; ``accepted`` of them were accepted
    ids: tuple[tuple[int | None, ...], ...]  # by answer
    full: tuple[int, int, int] = (0, 0, 0)  # passes, drafts, and rounds that drafted, among the rounds of ``writing``
    busy: float | None = None  # the share of the cores that other programs took, None where it is not known


@dataclass(frozen=True)
class UsersRow:
    """One number of users with one method, over its repeats. None where a ratio has nothing (yet) to divide by."""

    users: int
    method: str
    prompts: int
    tokens: int  # in the first repeat
    seconds: float  # per repeat, on average
    total_tokens_per_second: float  # all users' together, over the whole time, including the reading of prompts
    tokens_per_second: float  # one user's, over the same time
    # All users' while each of them is written to, with the tokens per pass of whole answers. The prediction is the cost
    # model's for the same; its plain step takes as long as it did with the fewest users.
    all_writing_tokens_per_second: float | None
    predicted_tokens_per_second: float | None
    over_fewest_users: float | None  # ratio of the totals: over plain decoding with the fewest users
    over_plain: float | None  # ratio of the totals: over plain decoding with as many
    all_writing_over_plain: float | None  # the same ratio for ``all_writing_tokens_per_second``
    drafted_per_round: float
    acceptance: float | None
    ttft: float  # median, in seconds
    differs: int | None  # answers of the first repeat unlike plain decoding's with the fewest users; None if sampled
    tau: float = math.inf  # tokens of a request per pass
    low: float | None = None  # ``low`` and ``high``: 95 % of ``all_writing_over_plain``, over repeats
    high: float | None = None
    busy: float | None = None  # the largest of these repeats and of plain decoding's

    @property
    def measured(self) -> Speedup | None:
        """``all_writing_over_plain`` and how certain it is; plain decoding is 1 by definition."""
        if self.method == BASELINE:
            return PLAIN
        gain = self.all_writing_over_plain
        return None if gain is None else Speedup(gain, self.low, self.high, ceiling(self.tau), self.busy)


def rows(served: Mapping[tuple[int, str], Sequence[Served]], is_greedy: bool) -> list[UsersRow]:
    """Returns the rows, sorted by users and method."""
    fewest = served.get((min((users for users, _ in served), default=0), BASELINE), ())
    return [
        _row(users, method, repeats, served.get((users, BASELINE), ()), fewest, is_greedy)
        for (users, method), repeats in sorted(served.items(), key=lambda item: item[0])
    ]


def _row(
    users: int, method: str, repeats: Sequence[Served], plain: Sequence[Served], fewest: Sequence[Served],
    is_greedy: bool,
) -> UsersRow:  # fmt: skip
    one, ours, theirs = repeats[0], _answers(repeats), _answers(plain)
    total, rounds = float(np.divide(*ours.sum(0))), sum(each.rounds for each in repeats)
    tested = sum(each.tested for each in repeats)
    drafted, tau = sum(each.drafted for each in repeats) / rounds, sum(each.tokens for each in repeats) / rounds
    passes = pass_time(users, repeats, plain) if method != BASELINE else None
    share = drafted / passes.drafted if passes and passes.drafted else 1.0
    gain = passes.speedup(tau, share) if passes else PLAIN if method == BASELINE else None
    step = _mean(plain, 1)
    rate = users / step if gain and step else None
    predicted = _predict_passes(users, repeats, plain, fewest, share)
    return UsersRow(
        users=users,
        method=method,
        prompts=len(one.ids),
        tokens=one.tokens,
        seconds=float(ours[:, 1].mean()),
        total_tokens_per_second=total,
        tokens_per_second=total / users,
        all_writing_tokens_per_second=rate * gain.value if rate and gain else None,
        predicted_tokens_per_second=predicted and tau * predicted,
        over_fewest_users=ratio(ours, _answers(fewest)),
        over_plain=ratio(ours, theirs),
        all_writing_over_plain=gain.value if rate and gain else None,
        drafted_per_round=drafted,
        acceptance=sum(each.accepted for each in repeats) / tested if tested else None,
        ttft=statistics.median(time for each in repeats for time in each.ttft),
        differs=sum(map(operator.ne, one.ids, fewest[0].ids)) if fewest and is_greedy else None,
        tau=tau,
        low=gain.low if passes and gain else None,
        high=gain.high if passes and gain else None,
        busy=largest_share(each.busy for each in (*repeats, *plain)),
    )


def pass_time(users: int, ours: Sequence[Served], plain: Sequence[Served]) -> PassTime | None:
    """Compares repeats with drafts with repeats of plain decoding by as many users. None without a shared pass."""
    pairs = [(a, b) for a, b in zip(ours, plain, strict=False) if a.full[0] and b.full[0]]
    if not pairs:
        return None
    ours_timed, theirs = (
        np.array([(each.full[0], each.writing[1]) for each in side], float) for side in zip(*pairs, strict=True)
    )
    speed = ratio(ours_timed, theirs)
    if not speed:
        return None
    ends, passes = interval(ours_timed, theirs) or (None, None), sum(a.full[0] for a, _ in pairs)
    drafted, drafting = (sum(a.full[i] for a, _ in pairs) / (users * passes) for i in (1, 2))
    return PassTime(speed, *ends, drafted, drafting)


def _mean(served: Sequence[Served], which: int) -> float | None:
    """Returns the seconds of a pass that all users shared (``which`` is 1), or its costs by the model (2)."""
    passes = sum(each.full[0] for each in served)
    return sum(each.writing[which] for each in served) / passes if passes else None


def _predict_passes(users: int, ours, plain, fewest, share: float) -> float | None:
    """Predicts passes a second of all users by the cost model, in rounds with ``share`` times the drafts."""
    mine, base, step = _mean(ours, 2), _mean(plain, 2), _step(fewest)
    return users / ((base + (mine - base) * share) * step) if mine and base and step else None


def _answers(served: Sequence[Served]) -> np.ndarray:
    """Returns [repeats, 2]: tokens and seconds of all answers."""
    return np.array([(each.tokens, each.seconds) for each in served], float).reshape(-1, 2)


def _step(plain: Sequence[Served]) -> float | None:
    """Returns the seconds of a plain step, as measured."""
    steps = sum(each.writing[2] for each in plain)
    return sum(each.writing[1] for each in plain) / steps if steps else None


def least_chances(costs: CostModel, most: int) -> dict[int, float]:
    """Returns for 1 … ``most`` users the chance of acceptance from which a drafted token pays for its row and its draft
    step. Ends where even a draft that is always accepted would not."""
    chances = {}
    for users in range(1, most + 1):
        chance = break_even(1, *shared_costs(costs.c, costs.v, users))
        if chance is None:
            break
        chances[users] = chance
    return chances


def refuted_users(rows_: Sequence[UsersRow], method: str) -> set[int]:
    """Returns the numbers of users at which the measured gain of a method excludes the one that its costs predict."""
    predicted = {(row.users, row.method): row.predicted_tokens_per_second for row in rows_}
    measured = {row.users: row.measured for row in rows_ if row.method == method and row.measured}
    return {
        users for users, gain in measured.items()
        if (ours := predicted[users, method]) and (plain := predicted.get((users, BASELINE)))
        and gain.excludes(ours / plain)
    }  # fmt: skip


def without_refuted_neighbours(
    refuted: Set[int], chances: Mapping[int, float], measured: Iterable[int]
) -> dict[int, float]:
    """Returns the chances of those users whose nearest measured numbers, below and above, are both not ``refuted``.

    >>> without_refuted_neighbours({4}, {1: 0.1, 2: 0.2, 4: 0.3, 6: 0.4, 8: 0.5, 9: 0.6}, [1, 4, 8])
    {1: 0.1, 8: 0.5, 9: 0.6}
    """
    places = sorted(measured)
    return {
        users: chance for users, chance in chances.items()
        if not refuted & {*[n for n in places if n <= users][-1:], *[n for n in places if n >= users][:1]}
    }  # fmt: skip


def markdown(rows_: Iterable[UsersRow], fewest: int) -> str:
    numbers = {
        "total tokens/s": ("total_tokens_per_second", ".1f"), "each": ("tokens_per_second", ".1f"),
        "all writing": ("all_writing_tokens_per_second", ".1f"), "predicted": ("predicted_tokens_per_second", ".1f"),
        f"× plain with {fewest}": ("over_fewest_users", ".2f"), "× plain": ("over_plain", ".2f"),
        "drafted a round": ("drafted_per_round", ".2f"),
    }  # fmt: skip
    lines = [
        [
            str(r.users), r.method, *(show(getattr(r, name), form) for name, form in numbers.values()),
            f"{1000 * r.ttft:.0f} ms", "sampled" if r.differs is None else str(r.differs),
        ]
        for r in rows_
    ]  # fmt: skip
    return table(["users", "method", *numbers, "first token", "differs"], lines)
