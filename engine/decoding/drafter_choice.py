"""Decides for every round which of several drafters drafts, and how far.

Each drafter promises some tokens for some cost. The one that beats the average the most is taken: argmax
tokens − R · cost (Dinkelbach's rule for a ratio of sums). R is the tokens per cost of the recent rounds, or what a
drafter with a model promises if that is more, because such a drafter can draft any round. A round that no
promise would speed up goes to a drafter with a model, too, until that has cost too much. Otherwise it could never prove
itself. One that has cost too much promises nothing for some rounds.
`Drafts.competitors` in `runtime/drafts.py` says who competes: beside an EAGLE head only the drafters that read the text
itself (`ngram`), otherwise all that can run here except those with ``competes=False``.
Promises are made of committed text and of past rounds, never of a drawn draft, because otherwise the output would not
be exact.
"""

from collections.abc import Hashable, Mapping, Sequence

from engine.decoding.draft_length import AdaptiveGamma, Rate
from engine.drafters.base import PER_TOKEN, DraftOffer, DraftPolicy, GammaPolicy, Keys, Outcomes
from engine.drafters.token_tree import Worthwhile


class DrafterChoice(GammaPolicy, DraftPolicy):
    """A γ policy over several drafters. ``members``: the policy of each by its name, all with one ``rate``. ``gamma``:
    a fixed draft length; None decides about it, too."""

    def __init__(self, members: Mapping[str, AdaptiveGamma], rate: Rate, gamma: int | None = None):
        self.members, self.rate, self.gamma = members, rate, gamma
        self._offers: Sequence[DraftOffer] = ()  # of this round
        self._member: AdaptiveGamma | None = None  # the policy of the drafter that was chosen for it

    def share(self, rows: int) -> None:
        for member in self.members.values():
            member.share(rows)

    def choose(self, offers: Sequence[DraftOffer], room: int) -> tuple[DraftOffer | None, int]:
        self._offers = offers
        if self.gamma == 0:
            return None, 0
        named = {offer.drafter.name: offer for offer in offers}
        if self.gamma is None:
            named = {n: o for n, o in named.items() if o.keys != PER_TOKEN or not self.members[n].is_resting()}
        promises = {name: list(self.members[name].promises(offer.keys, room)) for name, offer in named.items()}
        anywhere = (promise for name, offer in named.items() if offer.keys == PER_TOKEN for promise in promises[name])
        self.rate.floor = max([1.0, *(tokens / cost for _, tokens, cost in anywhere)])
        gain, gamma, name = max(
            (
                (tokens - self.rate.value * cost, gamma, name)
                for name, lengths in promises.items()
                for gamma, tokens, cost in (lengths if self.gamma is None else lengths[: self.gamma][-1:])
            ),
            default=(0.0, 0, ""),
        )
        if self.gamma is None:
            models = (name for name, offer in named.items() if offer.keys == PER_TOKEN)
            if gain <= 1.0 - self.rate.value:  # a plain step yields one token for a cost of one
                # A drafter with a model whose drafts could pay is tried, if there is one.
                name, gamma = next((name for name in models if self.members[name].length(PER_TOKEN, room)), ""), 0
            if name and named[name].keys == PER_TOKEN:
                gamma = len(promises[name])  # it may go on for as long as it is sure
        self._member = self.members.get(name)
        return named.get(name), gamma

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
