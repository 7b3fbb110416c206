"""γ = auto: choose each round's draft length from measured costs and the acceptance seen so far.

The chooser keeps one estimate of α for each *situation* a drafter names (prompt lookup: how long its match is; a
draft model: how sure it is of its guess), starting at a shipped prior and forgetting slowly.

Where the situation is known before anything is drafted, the length with the most expected tokens per cost is chosen.
A draft model tells only as it goes (``ASK``), so there the chooser is asked twice a token: is this guess worth
scoring, and is another step worth its cost? Neither question looks at the token drawn, only at the distribution it
will be drawn from, so the output stays exact.
"""

from collections.abc import Mapping, Sequence
from math import prod

from engine.drafters.base import ASK
from engine.theory import best_length, interpolate

PRIOR_WEIGHT = 4.0  # tests that the prior counts for
MEMORY = 24.0  # tests after which old evidence has faded to 1/e
RECOVERY = 0.02  # share of the way back to the prior in each round left undrafted
_RATE_MEMORY = 32.0  # rounds over which tokens per cost are averaged
_DEBT = 0.5  # plain steps that asking may lose before it is left alone for a while
_REST, _LONGEST_REST = 8, 64  # rounds


class FixedGamma:
    """The same γ every round."""

    def __init__(self, gamma: int):
        self.gamma = gamma

    def choose(self, situation, most: int) -> int:
        return min(self.gamma, most)

    def keep(self, path: Sequence) -> bool:
        return True

    def more(self, path: Sequence) -> bool:
        return True

    def observe(self, situation, tested: int, accepted: int, path: Sequence = (), steps: int = 0) -> None:
        pass


class AutoGamma:
    """γ ≥ 0 with the most expected tokens per cost for the situation at hand.

    ``deeper`` maps a situation to the one that a kept draft leads to, so that acceptance may change with depth: a
    prompt lookup whose first guess is right has found a longer match. ``priors[ASK]`` is α whatever the situation.
    """

    def __init__(self, c: float, v: Mapping[int, float], priors: Mapping, deeper=lambda situation: situation, most=16):
        self.c, self.v, self.priors, self.deeper, self.most = c, v, priors, deeper, most
        self._seen: dict = {}  # situation -> (accepted, refused), both decayed
        self._tokens = self._cost = _RATE_MEMORY / 4  # a prior rate of 1: as good as plain
        self._balance, self._rest, self._rested = 0.0, _REST, 0

    def alpha(self, situation) -> float:
        prior = self.priors.get(situation, 0.5)
        accepted, refused = self._seen.get(situation, (0.0, 0.0))
        return (accepted + PRIOR_WEIGHT * prior) / (accepted + refused + PRIOR_WEIGHT)

    def choose(self, situation, most: int) -> int:
        if situation == ASK:
            if self.c + self._scoring(1) >= 1.0:
                return 0  # even a draft that is always kept costs more than it saves
            if self._rested:
                self._rested -= 1
                return 0
            return min(self.most, most)
        gamma = best_length([self.alpha(s) for s in self._path(situation, min(self.most, most))], self.c, self.v)
        if gamma == 0 and situation in self._seen:
            self._fade(situation, 1 - RECOVERY)
        return gamma

    def keep(self, path: Sequence) -> bool:
        """Whether the last guess of ``path`` (situations of all guesses so far) is likelier kept than it costs to
        score: its chance against what that time earns on average."""
        reached = prod(self.alpha(s) for s in path)
        return reached >= self._rate() * self._scoring(len(path))

    def more(self, path: Sequence) -> bool:
        """The same of a guess not yet made, which costs a draft step as well."""
        reached = prod(self.alpha(s) for s in path) * self.alpha(ASK)
        return reached >= self._rate() * (self._scoring(len(path) + 1) + self.c)

    def _scoring(self, drafts: int) -> float:
        return interpolate(self.v, drafts + 1) - interpolate(self.v, drafts)

    def _rate(self) -> float:
        return max(1.0, self._tokens / self._cost)

    def observe(self, situation, tested: int, accepted: int, path: Sequence = (), steps: int = 0) -> None:
        """``tested`` drafts were looked at and the first ``accepted`` of them kept. ``path``: the situations of all
        drafts of a round that was asked for, ``steps`` the draft steps it took."""
        for i, s in enumerate(path[:tested] if situation == ASK else self._path(situation, tested)):
            self._count(s, i < accepted)
            if situation == ASK:
                self._count(ASK, i < accepted)
        if situation == ASK and steps:
            self._account(accepted + 1, steps * self.c + interpolate(self.v, len(path) + 1))

    def _account(self, tokens: int, cost: float) -> None:
        """What asking earned; after losing ``_DEBT`` plain steps it rests, longer each time that nothing changed."""
        fade = 1 - 1 / _RATE_MEMORY
        self._tokens, self._cost = fade * self._tokens + tokens, fade * self._cost + cost
        self._balance = fade * self._balance + tokens - cost
        if self._balance < -_DEBT:
            self._balance, self._rested = 0.0, self._rest
            self._rest = min(2 * self._rest, _LONGEST_REST)
        elif self._balance > _DEBT:
            self._rest = _REST

    def _count(self, situation, kept: bool) -> None:
        self._fade(situation, 1 - 1 / MEMORY)
        accepted, refused = self._seen[situation]
        self._seen[situation] = (accepted + kept, refused + (not kept))

    def _path(self, situation, length: int):
        for _ in range(length):
            yield situation
            situation = self.deeper(situation)

    def _fade(self, situation, share: float) -> None:
        kept, refused = self._seen.get(situation, (0.0, 0.0))
        self._seen[situation] = (kept * share, refused * share)


class PinnedGamma:
    """The γ of each round as a trace recorded it, so that a run with γ = auto can be repeated exactly.

    ``gammas``: γ, or (γ, draft steps) where a draft model may have taken one more step than it drafted tokens.
    Rounds are counted where they are observed, which is each of them: where nothing can be drafted nobody chooses.
    """

    def __init__(self, gammas: Sequence[int | tuple[int, int]]):
        self.rounds, self._round = [g if isinstance(g, tuple) else (g, g) for g in gammas], 0

    def choose(self, situation, most: int) -> int:
        return min(max(self._pinned()) if situation == ASK else self._pinned()[0], most)

    def keep(self, path: Sequence) -> bool:
        return len(path) <= self._pinned()[0]

    def more(self, path: Sequence) -> bool:
        return len(path) < self._pinned()[1]

    def _pinned(self) -> tuple[int, int]:
        return self.rounds[self._round] if self._round < len(self.rounds) else (0, 0)

    def observe(self, situation, tested: int, accepted: int, path: Sequence = (), steps: int = 0) -> None:
        self._round += 1
