"""Computes what many users at once get, plain and with each method, and writes it as tables. No model, no torch."""

import math
import operator
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from engine.bench.metrics import show, table
from engine.bench.sample import BASELINE
from engine.trace.events import CostModel
from engine.trace.speedup_model import break_even, shared_costs

_LISTS = ("writing", "ttft", "ids")


@dataclass(frozen=True)
class Served:
    """All prompts answered once. ``writing``: tokens, seconds, and the cost model's prediction in plain steps, of the
    rounds in which every user got tokens, each user's first one apart; ``ttft``: seconds from each request to its first
    token; ``tested`` drafts, of which ``accepted`` were; ``ids``: of each answer."""

    tokens: int
    seconds: float
    writing: tuple[int, float, float]
    ttft: tuple[float, ...]
    rounds: int
    drafted: int
    accepted: int
    tested: int
    ids: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, saved: Mapping) -> "Served":
        """From what ``asdict`` gave, read from JSON. KeyError, TypeError or ValueError for anything else."""
        values = {field.name: _tuples(saved[field.name]) for field in fields(cls)}
        numbers = [value for name, value in values.items() if name not in _LISTS]
        if not all(type(number) in (int, float) for number in (*numbers, *values["writing"], *values["ttft"])):
            raise TypeError("not a number")
        if len(values["writing"]) != 3:
            raise ValueError("not three numbers")
        return cls(**values)


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class UsersRow:
    """One number of users with one method; of several repeats the fastest. ``tokens_per_second`` are those of one
    user, with the prompts; ``all_writing…``: of all users, while each of them is written to; ``predicted…``: the same
    by the cost model, with a plain step as long as plain decoding took for the fewest users; ``over…``: ratios of the
    totals, and ``all_writing_over_plain`` of those. ``differs``: answers unlike those of plain decoding with the fewest
    users, None if they are sampled. None also where there is nothing (yet) to divide by."""

    users: int
    method: str
    prompts: int
    tokens: int
    seconds: float
    total_tokens_per_second: float
    tokens_per_second: float
    all_writing_tokens_per_second: float | None
    predicted_tokens_per_second: float | None
    over_fewest_users: float | None
    over_plain: float | None
    all_writing_over_plain: float | None
    drafted_per_round: float
    acceptance: float | None
    ttft: float
    differs: int | None


def rows(served: Mapping[tuple[int, str], Sequence[Served]], is_greedy: bool) -> list[UsersRow]:
    """By (users, method)."""
    best = {cell: min(repeats, key=lambda one: one.seconds) for cell, repeats in served.items()}
    fewest = best.get((min((users for users, _ in best), default=0), BASELINE))
    return [
        _row(users, method, one, best.get((users, BASELINE)), fewest, is_greedy)
        for (users, method), one in sorted(best.items(), key=lambda item: item[0])
    ]


def _row(
    users: int, method: str, one: Served, plain: Served | None, fewest: Served | None, is_greedy: bool
) -> UsersRow:
    total, (tokens, _, steps), step = one.tokens / one.seconds, one.writing, _step(fewest)
    return UsersRow(
        users=users,
        method=method,
        prompts=len(one.ids),
        tokens=one.tokens,
        seconds=one.seconds,
        total_tokens_per_second=total,
        tokens_per_second=total / users,
        all_writing_tokens_per_second=_rate(one),
        predicted_tokens_per_second=tokens / (steps * step) if steps and step else None,
        over_fewest_users=total * fewest.seconds / fewest.tokens if fewest else None,
        over_plain=total * plain.seconds / plain.tokens if plain else None,
        all_writing_over_plain=_rate(one) / _rate(plain) if plain and _rate(plain) and _rate(one) else None,
        drafted_per_round=one.drafted / one.rounds,
        acceptance=one.accepted / one.tested if one.tested else None,
        ttft=statistics.median(one.ttft),
        differs=sum(map(operator.ne, one.ids, fewest.ids)) if fewest and is_greedy else None,
    )


def _rate(one: Served) -> float | None:
    tokens, seconds, _ = one.writing
    return tokens / seconds if seconds else None


def _step(plain: Served | None) -> float | None:
    """Seconds of a plain step, as measured."""
    _, seconds, steps = plain.writing if plain else (0, 0.0, 0.0)
    return seconds / steps if steps else None


def stops_paying(ours: Mapping[int, float], plain: Mapping[int, float]) -> float | None:
    """The number of users from which on a method writes less than plain decoding; None if with the most users it does
    not. Both: tokens a second by users. Linear between the numbers that both have, in log(users).

    >>> stops_paying({1: 15, 4: 25, 16: 35}, {1: 10, 4: 20, 16: 40})
    8.0
    """
    users = sorted(ours.keys() & plain.keys())
    lead = [ours[number] - plain[number] for number in users]
    below = len(users)
    while below and lead[below - 1] < 0:
        below -= 1
    if below == len(users):
        return None
    if below == 0:
        return float(users[0])
    few, many = users[below - 1], users[below]
    share = lead[below - 1] / (lead[below - 1] - lead[below])
    return math.exp(math.log(few) + share * math.log(many / few))


def least_chances(costs: CostModel, most: int) -> dict[int, float]:
    """For 1 … ``most`` users: the chance of acceptance from which a drafted token pays for its row and its draft step.
    Ends where even a draft that is always accepted would not."""
    chances = {}
    for users in range(1, most + 1):
        chance = break_even(1, *shared_costs(costs.c, costs.v, users))
        if chance is None:
            break
        chances[users] = chance
    return chances


def markdown(rows_: Iterable[UsersRow], fewest: int) -> str:
    heads = [
        "users",
        "method",
        "total tokens/s",
        "each",
        "all writing",
        "predicted",
        f"× plain with {fewest}",
        "× plain",
    ]
    heads += ["drafted a round", "first token", "differs"]
    lines = [
        [
            str(r.users),
            r.method,
            show(r.total_tokens_per_second, ".1f"),
            show(r.tokens_per_second, ".1f"),
            show(r.all_writing_tokens_per_second, ".1f"),
            show(r.predicted_tokens_per_second, ".1f"),
            show(r.over_fewest_users, ".2f"),
            show(r.over_plain, ".2f"),
            show(r.drafted_per_round, ".2f"),
            f"{1000 * r.ttft:.0f} ms",
            "sampled" if r.differs is None else str(r.differs),
        ]
        for r in rows_
    ]
    return table(heads, lines)


def to_dicts(rows_: Iterable[UsersRow]) -> list[dict]:
    """For JSON."""
    return [asdict(row) for row in rows_]
