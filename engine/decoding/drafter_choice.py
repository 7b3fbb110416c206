"""Decides for every round which of several drafters drafts, and how far.

Each drafter promises some tokens for some cost. The one that beats the average the most is taken: argmax
tokens − R · cost (Dinkelbach's rule for a ratio of sums). R is the tokens per cost of the recent rounds, or what a
drafter with a model promises if that is more, because such a drafter can draft any round.

Of the drafters with a model only one is on duty: the one that promises most. Another takes over where it promises
clearly more, or where the other pauses, a few times in a run at most, because it may have to read the text first. One
that was on duty before has read most of it, and comes back for a little more. A round that no promise would speed up
goes to the one on duty, too, until that has cost too much. Otherwise it could never prove itself. One that has cost too
much promises nothing for some rounds.

`Drafts.competitors` in `runtime/drafts.py` says who competes. Promises are made of committed text, of past rounds and
of costs that were known before the run, never of a drawn draft, because otherwise the output would not be exact, and
never of this run's clock, because otherwise a seed would not decide everything.
"""

from collections.abc import Hashable, Mapping, Sequence

from engine.decoding.draft_length import AdaptiveGamma, Rate
from engine.drafters.base import PER_TOKEN, DraftOffer, DraftPolicy, GammaPolicy, Keys, Outcomes
from engine.drafters.token_tree import Worthwhile

_CLEARLY = 1.2  # how much more another drafter with a model has to promise to take over
_AGAIN = 1.05  # and one that was on duty before, which has read most of the text
_CHANGES = 4  # how often that may happen in a run


class DrafterChoice(GammaPolicy, DraftPolicy):
    """A γ policy over several drafters. ``members``: the policy of each by its name, all with one ``rate``. ``gamma``:
    a fixed draft length; None decides about it, too."""

    def __init__(self, members: Mapping[str, AdaptiveGamma], rate: Rate, gamma: int | None = None):
        self.members, self.rate, self.gamma = members, rate, gamma
        self._offers: Sequence[DraftOffer] = ()  # of this round
        self._member: AdaptiveGamma | None = None  # the policy of the drafter that was chosen for it
        self._on_duty, self._changes = "", _CHANGES
        self._former: set[str] = set()  # who was on duty

    def share(self, rows: int) -> None:
        for member in self.members.values():
            member.share(rows)

    def choose(self, offers: Sequence[DraftOffer], room: int) -> tuple[DraftOffer | None, int]:
        self._offers = offers
        if self.gamma == 0:
            return None, 0
        named = {offer.drafter.name: offer for offer in offers}
        if self.gamma is None:
            on_duty = self._choose_duty([name for name, offer in named.items() if offer.keys == PER_TOKEN], room)
            named = {name: offer for name, offer in named.items() if offer.keys != PER_TOKEN or name == on_duty}
        promises = {name: self._promises(name, offer.keys, room) for name, offer in named.items()}
        anywhere = (promise for name, offer in named.items() if offer.keys == PER_TOKEN for promise in promises[name])
        self.rate.floor = max([1.0, *(tokens / cost for _, tokens, cost in anywhere)])
        gain, gamma, name = max(
            (
                (tokens - self.rate.value * cost, gamma, name)
                for name, lengths in promises.items()
                for gamma, tokens, cost in lengths
            ),
            default=(0.0, 0, ""),
        )
        if self.gamma is None and gain <= 1.0 - self.rate.value:  # a plain step yields one token for a cost of one
            # A drafter with a model whose drafts could pay is tried, if there is one.
            models = (name for name, offer in named.items() if offer.keys == PER_TOKEN)
            name = next((name for name in models if self.members[name].length(PER_TOKEN, room)), "")
            gamma = min(self.members[name].limit, room) if name else 0
        self._member = self.members.get(name)
        return named.get(name), gamma

    def _choose_duty(self, models: Sequence[str], room: int) -> str:
        """Returns which of ``models`` may draft this round, "" for none: one that has cost too much pauses."""
        rates = {}
        for name in models:
            _, tokens, cost = self.members[name].round_promise(room)
            rates[name] = tokens / cost
        if not rates:
            return ""
        best = max(rates, key=lambda name: rates[name])
        resting = {name: self.members[name].is_resting() for name in rates}  # a pause passes off duty, too
        if self._on_duty not in rates:
            self._on_duty = best
        factor = _AGAIN if best in self._former else _CLEARLY
        least = 1.0 if resting[self._on_duty] else factor * rates[self._on_duty]
        if best != self._on_duty and self._changes and rates[best] > least:
            self._former.add(self._on_duty)
            self._on_duty, self._changes = best, self._changes - 1
        return "" if resting[self._on_duty] else self._on_duty

    def _promises(self, name: str, keys: Keys, room: int) -> Sequence[tuple[int, float, float]]:
        member, room = self.members[name], room if self.gamma is None else min(self.gamma, room)
        lengths = [member.round_promise(room)] if keys == PER_TOKEN else list(member.promises(keys, room))
        return lengths if self.gamma is None else lengths[-1:]

    def worth_verifying(self, path: Sequence[Hashable]) -> bool:
        return self.gamma is not None or self._member is None or self._member.worth_verifying(path)

    def worth_drafting(self, path: Sequence[Hashable]) -> bool:
        return self.gamma is not None or self._member is None or self._member.worth_drafting(path)

    def tree_shape(self) -> Worthwhile | None:
        return self._member.tree_shape() if self._member and self.gamma is None else None

    def observe(self, keys: Keys | None, outcomes: Outcomes, *details, **more) -> None:
        if self._member is None:
            self.rate.add(1.0, 1.0)
        else:
            self._member.observe(keys, outcomes, *details, **more)
        for offer in self._offers:
            if (other := self.members[offer.drafter.name]) is not self._member:
                other.forget(offer.keys)  # so that it gets another chance
        self._offers, self._member = (), None
