"""Decides for every round which of several drafters drafts, and how far.

Each drafter promises some tokens for some cost. The one that beats the recent average the most is taken:
argmax tokens − R · cost, with R the tokens per cost of the recent rounds (Dinkelbach's rule for a ratio of sums).
Promises are made of committed text and of past rounds, never of a drawn draft, because otherwise the output would not
be exact.
"""

from collections.abc import Hashable, Mapping, Sequence

from engine.decoding.draft_length import MEMORY, PRIOR_WEIGHT, RECOVERY, AdaptiveGamma, Rate
from engine.drafters.base import PER_TOKEN
from engine.trace.speedup_model import interpolate

_SITUATIONS = 10


class DrafterChoice:
    """A γ policy over several drafters. ``members``: the policy of each, all with one ``rate``. ``gamma``: a fixed
    draft length; None decides about it, too. ``drafter``: the one chosen for this round, "" for none."""

    def __init__(self, members: Mapping[str, AdaptiveGamma], rate: Rate, gamma: int | None = None):
        self.members, self.rate, self.gamma = members, rate, gamma
        self.v = next(iter(members.values())).v if members else {1: 1.0}
        self.drafter, self._length, self._situation = "", 0, 0
        self._yields: dict[tuple[str, int], _Yield] = {}

    def choose(self, keys: Mapping[str, Hashable], most: int) -> int:
        """``keys``: the confidence key of each drafter that has something to propose. Returns its draft length."""
        plans = {name: self._plan(name, key, most) for name, key in keys.items() if key != PER_TOKEN}
        self._situation = self._situation_of(keys)
        for name in keys.keys() - plans.keys():
            plans[name] = self._expected(name, most)
        rate = self.rate.value
        gains = {name: tokens - rate * cost for name, (_, tokens, cost) in plans.items()}
        best = max(gains, key=gains.get, default="")
        if self.gamma is None and gains.get(best, 0.0) <= 1.0 - rate:
            best = ""  # a plain step yields one token for a cost of one
        self.drafter, self._length = best, plans[best][0] if best else 0
        return self._length

    def _plan(self, name: str, key: Hashable, most: int) -> tuple[int, float, float]:
        member = self.members[name]
        if self.gamma is not None:
            return member.promise(key, min(self.gamma, most))
        return member.best_promise(key, most)

    def _situation_of(self, keys: Mapping[str, Hashable]) -> int:
        """How sure the drafters without a model are of their first token, in tenths: where a text repeats itself, the
        others guess better, too."""
        sure = [self.members[name].alpha(key) for name, key in keys.items() if key != PER_TOKEN]
        return int(max(sure, default=0.0) * (_SITUATIONS - 1))

    def _expected(self, name: str, most: int) -> tuple[int, float, float]:
        """Of a drafter that decides per token, from its past rounds in this situation."""
        member = self.members[name]
        longest = min(member.most if self.gamma is None else self.gamma, most)
        _, tokens, cost = self._plan(name, PER_TOKEN, most)
        overall = self._yield(name, -1).mean(tokens, cost)
        return longest, *self._yield(name, self._situation).mean(*overall)

    def _yield(self, name: str, situation: int) -> "_Yield":
        return self._yields.setdefault((name, situation), _Yield())

    def worth_verifying(self, path: Sequence[Hashable]) -> bool:
        return self.gamma is not None or self.members[self.drafter].worth_verifying(path)

    def worth_drafting(self, path: Sequence[Hashable]) -> bool:
        return self.gamma is not None or self.members[self.drafter].worth_drafting(path)

    def observe(self, keys, tested: int, accepted: int, path: Sequence = (), steps: int = 0) -> None:
        name, tokens = self.drafter, accepted + 1
        if not name:
            self.rate.add(1.0, 1.0)
        else:
            member, key = self.members[name], keys[name]
            drafted = len(path) if key == PER_TOKEN else self._length
            cost = steps * member.c + interpolate(self.v, drafted + 1)
            member.observe(key, tested, accepted, path)
            self.rate.add(tokens, cost)
            if key == PER_TOKEN:
                for situation in (-1, self._situation):
                    self._yield(name, situation).add(tokens, cost)
        self.drafter = ""
        for other, key in (keys or {}).items():
            if other != name:
                self._forget(other, key)

    def _forget(self, name: str, key: Hashable) -> None:
        """Believes a little less in an unused drafter's past, so that it gets another chance."""
        if key == PER_TOKEN:
            self._yield(name, self._situation).fade(1 - RECOVERY)
        else:
            self.members[name].forget(key)


class _Yield:
    """Decaying means of a drafter's tokens and costs a round."""

    def __init__(self):
        self.rounds = self.tokens = self.cost = 0.0

    def add(self, tokens: float, cost: float) -> None:
        self.fade(1 - 1 / MEMORY)
        self.rounds, self.tokens, self.cost = self.rounds + 1, self.tokens + tokens, self.cost + cost

    def fade(self, share: float) -> None:
        self.rounds, self.tokens, self.cost = self.rounds * share, self.tokens * share, self.cost * share

    def mean(self, tokens: float, cost: float) -> tuple[float, float]:
        """``tokens`` and ``cost``: the prior means."""
        weight = self.rounds + PRIOR_WEIGHT
        return (self.tokens + PRIOR_WEIGHT * tokens) / weight, (self.cost + PRIOR_WEIGHT * cost) / weight
