"""Computes what many users at once get, plain and with each method, and writes it as tables. No model, no torch."""

import math
import operator
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from engine.bench.metrics import interval, ratio, show, table
from engine.bench.sample import BASELINE
from engine.trace.events import CostModel
from engine.trace.noise import PLAIN, Speedup, ceiling
from engine.trace.speedup_model import break_even, shared_costs

_LISTS = ("writing", "ttft", "ids")


@dataclass(frozen=True)
class Served:
    """All prompts answered once. ``writing``: tokens, seconds, and the cost model's prediction in plain steps, of the
    rounds in which every user got tokens, each user's first one apart; ``ttft``: seconds from each request to its first
    token; ``tested`` drafts, of which ``accepted`` were; ``ids``: of each answer; ``busy``: the share of the cores that
    other programs took, None where it is not known."""

    tokens: int
    seconds: float
    writing: tuple[int, float, float]
    ttft: tuple[float, ...]
    rounds: int
    drafted: int
    accepted: int
    tested: int
    ids: tuple[tuple[int, ...], ...]
    busy: float | None = None

    @classmethod
    def of(cls, saved: Mapping) -> "Served":
        """Makes a row of what ``asdict`` gave, read from JSON. KeyError, TypeError or ValueError for anything else."""
        values = {field.name: _tuples(saved[field.name]) for field in fields(cls) if field.name != "busy"}
        values |= {} if saved.get("busy") is None else {"busy": saved["busy"]}
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
    """One number of users with one method; of several repeats all together. ``tokens_per_second`` are those of one
    user, with the prompts; ``all_writing…``: of all users, while each of them is written to; ``predicted…``: the same
    by the cost model, with a plain step as long as plain decoding took for the fewest users; ``over…``: ratios of the
    totals, and ``all_writing_over_plain`` of those. ``differs``: answers unlike those of plain decoding with the fewest
    users, None if they are sampled. ``tau``: tokens of a request per pass; ``low`` and ``high``: 95 % of
    ``all_writing_over_plain``, over repeats; ``busy``: as of `Served`, the largest. None also where there
    is nothing (yet) to divide by."""

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
    tau: float = math.inf
    low: float | None = None
    high: float | None = None
    busy: float | None = None

    @property
    def measured(self) -> Speedup | None:
        """``all_writing_over_plain`` and what it can bear; plain decoding is 1 by definition."""
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
    total, (tokens, seconds) = _rate(ours), _writing(repeats).sum(0)
    steps, step, least = _steps(repeats), _step(fewest), min(len(repeats), len(plain))
    pairs = _writing(repeats[:least]), _writing(plain[:least])
    gain = ratio(*pairs) if least else None
    ends = interval(*pairs) if gain else None
    return UsersRow(
        users=users,
        method=method,
        prompts=len(one.ids),
        tokens=one.tokens,
        seconds=float(ours[:, 1].mean()),
        total_tokens_per_second=total,
        tokens_per_second=total / users,
        all_writing_tokens_per_second=float(tokens / seconds) if seconds else None,
        predicted_tokens_per_second=float(tokens / (steps * step)) if steps and step else None,
        over_fewest_users=ratio(ours, _answers(fewest)),
        over_plain=ratio(ours, theirs),
        all_writing_over_plain=gain,
        drafted_per_round=sum(each.drafted for each in repeats) / sum(each.rounds for each in repeats),
        acceptance=_share(sum(each.accepted for each in repeats), sum(each.tested for each in repeats)),
        ttft=statistics.median(time for each in repeats for time in each.ttft),
        differs=sum(map(operator.ne, one.ids, fewest[0].ids)) if fewest and is_greedy else None,
        tau=sum(each.tokens for each in repeats) / sum(each.rounds for each in repeats),
        low=ends[0] if ends else None,
        high=ends[1] if ends else None,
        busy=max((each.busy for each in (*repeats, *plain) if each.busy is not None), default=None),
    )


def _answers(served: Sequence[Served]) -> np.ndarray:
    """[repeats, 2]: tokens and seconds of all answers."""
    return np.array([(each.tokens, each.seconds) for each in served], float).reshape(-1, 2)


def _writing(served: Sequence[Served]) -> np.ndarray:
    """[repeats, 2]: the same while every user was written to."""
    return np.array([each.writing[:2] for each in served], float).reshape(-1, 2)


def _steps(served: Sequence[Served]) -> float:
    return sum(each.writing[2] for each in served)


def _rate(answers: np.ndarray) -> float:
    tokens, seconds = answers.sum(0)
    return float(tokens / seconds)


def _share(part: int, number: int) -> float | None:
    return part / number if number else None


def _step(plain: Sequence[Served]) -> float | None:
    """Seconds of a plain step, as measured."""
    steps = _steps(plain)
    return float(_writing(plain)[:, 1].sum() / steps) if steps else None


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
