"""Splits the time of a server's step into parts, from its tokens/s and acceptance length at some draft lengths.

    step(γ) = plain + [γ > 0] · fixed + γ · draft        step = acceptance length ÷ tokens/s

``fixed`` is the cost of having a drafter, however little it drafts; ``draft`` is the cost of one more draft, drafted
and scored. With a lookup, which drafts for nothing, the cost of scoring a row is known apart. Imports no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import BadInput
from engine.trace.noise import STEADIEST, T95
from engine.trace.speedup_model import expected_tokens

ROUNDING = 1e-9  # seconds by which a part that is 0 may come out below it
LONGEST = 16  # drafts that a prediction goes up to
PARTS = {  # a part of `Split` → its words
    "plain": "a plain step",
    "fixed": "fixed cost of drafting",
    "draft": "each draft, drafted and scored",
    "row": "scoring its row alone",
}


@dataclass(frozen=True)
class ServerPoint:
    """A measurement at ``gamma`` drafts a round: tokens a second for one user, and tokens a round."""

    gamma: int
    speed: float
    length: float = 1.0

    def __post_init__(self):
        if not 0 <= self.gamma <= 64:
            raise BadInput(f"γ = {self.gamma} cannot be: it is from 0 to 64.")
        if not 0 < self.speed < 1e7:
            raise BadInput(f"{self.speed:g} tokens/s cannot be: a speed is above 0 and below 10 million.")
        if not 1 <= self.length <= self.gamma + 1:
            raise BadInput(f"{self.length:g} tokens a round cannot be: it has from 1 to γ + 1, and γ is {self.gamma}.")

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> "ServerPoint":
        """Makes a point of γ, tokens a second and, with drafts, tokens a round. Raises BadInput that says the rule."""
        if len(numbers) not in (2, 3) or not float(numbers[0]).is_integer():
            raise BadInput("A point is a whole γ, tokens per second and, with drafts, tokens a round.")
        if numbers[0] and len(numbers) == 2:
            raise BadInput(f"Give the acceptance length of γ = {numbers[0]:g}, too: its tokens a round.")
        return cls(int(numbers[0]), *numbers[1:])

    @property
    def step(self) -> float:
        return self.length / self.speed


@dataclass(frozen=True)
class Part:
    """Seconds of a step, and half of its 95 % interval; None where the points leave no degree of freedom."""

    seconds: float
    half: float | None = None


@dataclass(frozen=True)
class Split:
    """``fixed`` and ``draft`` are None where one draft length alone was measured; ``row`` without a lookup."""

    plain: Part
    fixed: Part | None
    draft: Part | None
    row: Part | None
    first: float  # acceptance of a round's first draft, and of each one after it
    later: float
    longest: int  # the most drafts a round that were measured

    def known_parts(self) -> list[tuple[str, Part]]:
        """Returns the words and the time of each part that is known."""
        parts = [(words, getattr(self, name)) for name, words in PARTS.items()]
        return [(words, part) for words, part in parts if part is not None]

    def length(self, gamma: int) -> float:
        """Predicts tokens a round at γ, from the acceptance at the measured ones."""
        return 1 + self.first * expected_tokens(self.later, gamma - 1) if gamma else 1.0

    def speed(self, gamma: int, users: int = 1) -> float:
        """Predicts each user's tokens a second at γ with ``users`` at once. Each one beyond the first adds rows to the
        pass; drafting for all of them is assumed to cost as much as for one."""
        rows = (users - 1) * (gamma + 1) * self.row.seconds if users > 1 and self.row else 0.0
        return self.length(gamma) / (self.plain.seconds + self._drafting(gamma) + rows)

    def _drafting(self, gamma: int) -> float:
        """Returns the seconds that γ drafts add to a plain step."""
        if not gamma:
            return 0.0
        assert self.fixed and self.draft, "one draft length does not tell the cost of others"
        return self.fixed.seconds + gamma * self.draft.seconds

    @property
    def lines(self) -> list[str]:
        """A line for each known part, as in "a plain step: 37.7 ms", with half of its interval."""
        halves = {
            words: "" if part.half is None else f" ± {1000 * part.half:.1f}" for words, part in self.known_parts()
        }
        return [f"{words}: {1000 * part.seconds:.1f}{halves[words]} ms" for words, part in self.known_parts()]

    @property
    def best(self) -> int:
        return self.best_at(1)

    def best_at(self, users: int) -> int:
        return max(range(LONGEST + 1), key=lambda gamma: self.speed(gamma, users))

    def ceiling(self, gamma: int) -> float:
        """Returns the speedup at γ if every draft were accepted."""
        return (gamma + 1) * self.plain.seconds / (self.plain.seconds + self._drafting(gamma))


def split(points: Sequence[ServerPoint], lookup: Sequence[ServerPoint] = ()) -> Split:
    """Fits the costs by least squares over the points; ``lookup``: measured with a lookup as drafter. Raises BadInput
    without a plain point and a drafting one, and for points that no costs above 0 explain."""
    drafting = [point for point in points if point.gamma]
    if not drafting or len(drafting) == len(points):
        raise BadInput("Give a point without drafts, of γ = 0, and at least one with drafts.")
    row = None
    if costs := [(p.step - _mean(q.step for q in points if not q.gamma)) / p.gamma for p in lookup if p.gamma]:
        row = Part(max(0.0, _mean(costs)))
    first, later = _acceptance(drafting)
    if len({point.gamma for point in drafting}) == 1:
        plain = Part(_mean(p.step for p in points if not p.gamma))
        return Split(plain, None, None, row, first, later, max(p.gamma for p in drafting))
    columns = np.array([[1.0, float(p.gamma > 0), float(p.gamma)] for p in points])
    steps = np.array([p.step for p in points])
    solved, *_ = np.linalg.lstsq(columns, steps, rcond=None)
    freedom, halves = len(points) - 3, [None] * 3
    if freedom > 0:
        noise = float(((columns @ solved - steps) ** 2).sum()) / freedom
        spread = np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)) * noise)
        halves = [float(x) * (T95[min(freedom, len(T95)) - 1]) for x in spread]
    plain, fixed, draft = (Part(float(x), half) for x, half in zip(solved, halves, strict=True))
    if min(plain.seconds + fixed.seconds + gamma * draft.seconds for gamma in (1, LONGEST)) <= 0:
        raise BadInput("By these points a round would take no time at all. Measure them again, each several times.")
    return Split(plain, fixed, draft, row, first, later, max(p.gamma for p in drafting))


def _mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def _acceptance(drafting: Sequence[ServerPoint]) -> tuple[float, float]:
    """Returns α of the first draft, from γ = 1 if measured, and of the later ones, from the longest drafts."""
    ones = [p.length - 1 for p in drafting if p.gamma == 1]
    longest = max(p.gamma for p in drafting)
    length = _mean(p.length for p in drafting if p.gamma == longest)
    if longest == 1:
        return _mean(ones), _mean(ones)
    first = _mean(ones) if ones else None
    low, high = 0.0, 1.0
    for _ in range(50):
        alpha = (low + high) / 2
        tokens = 1 + (alpha if first is None else first) * expected_tokens(alpha, longest - 1)
        low, high = (alpha, high) if tokens < length else (low, alpha)
    return (low if first is None else first), low


def source(parts: Split) -> str:
    """Says which of the numbers were derived, and which predicted."""
    predicted = "" if parts.fixed is None else "; speeds at other γ and loads are predicted"
    return f"Times are derived from your points{predicted}."


def verdict(parts: Split, loads: Sequence[int] = ()) -> list[str]:
    """Says which γ to take, for one user and at other loads, and what cannot help."""
    if parts.fixed is None:
        return ["One draft length leaves the fixed cost and the cost of a draft together; measure a second one."]
    if impossible := [words for words, part in parts.known_parts() if part.seconds < -ROUNDING]:
        few = "Measure every point again, several times with the same prompts."
        return [f"No best γ: by these points the part “{impossible[0]}” would take less than no time. {few}"]
    if parts.draft and parts.longest * parts.draft.seconds < STEADIEST * parts.plain.seconds:
        return ["No best γ: by these points drafts take less time than can be measured. Measure a larger γ."]
    return [*_alone(parts), *(_at_load(parts, users) for users in loads if users > 1 and parts.row)]


def _at_load(parts: Split, users: int) -> str:
    best, plain = parts.best_at(users), parts.speed(0, users)
    if not best:
        return f"For {users} users no draft length pays."
    return f"For {users} users: γ = {best}, {parts.speed(best, users) / plain:.2f}× plain decoding."


def _alone(parts: Split) -> list[str]:
    best, plain, fixed, draft = parts.best, parts.speed(0), parts.fixed, parts.draft
    assert fixed and draft, "`verdict` asks first"
    if best:
        more = " or more" if best == LONGEST else ""
        gain = parts.speed(best) / plain
        words = [f"Best: γ = {best}{more}, {parts.speed(best):.1f} tokens/s by this model, {gain:.2f}× plain decoding."]
        if best > parts.longest:
            words.append(f"You measured up to γ = {parts.longest} only, so measure it before you use it.")
        return words
    least = max(range(1, LONGEST + 1), key=parts.speed)
    words = [f"No draft length pays; the least bad is γ = {least}, {parts.speed(least) / plain:.2f}× plain decoding."]
    room = max(parts.length(g) / plain - parts.plain.seconds - g * draft.seconds for g in range(1, LONGEST + 1))
    if room > 0:
        cost = f"{1000 * fixed.seconds:.1f} ms"
        words.append(f"The fixed cost of {cost} would have to fall below {1000 * room:.1f} ms.")
    else:
        words.append("Without its fixed cost it would not pay either: a draft costs more time than it saves.")
    if draft.seconds > 0:
        # Between the two the ceiling only rises or falls.
        one, long = parts.ceiling(1), parts.plain.seconds / draft.seconds
        if max(one, long) < 1:
            words.append("A better drafter cannot help: it would be slower even if every draft were accepted.")
        elif one > long:
            words.append(f"If every draft were accepted, γ = 1 would give {one:.2f}×.")
        else:
            words.append(
                f"If every draft were accepted, long ones would come near {long:.2f}×, a plain step ÷ a draft."
            )
    return words
