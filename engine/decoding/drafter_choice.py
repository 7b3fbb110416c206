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
from engine.drafters.base import PER_TOKEN, GammaPolicy
from engine.drafters.token_tree import Worthwhile


class DrafterChoice(GammaPolicy):
    """A γ policy over several drafters. ``members``: the policy of each, all with one ``rate``. ``gamma``: a fixed
    draft length; None decides about it, too. ``drafter``: the one chosen for this round, "" for none."""

    def __init__(self, members: Mapping[str, AdaptiveGamma], rate: Rate, gamma: int | None = None):
        self.members, self.rate, self.gamma = members, rate, gamma
        self.drafter, self._length = "", 0

    def share(self, rows: int) -> None:
        for member in self.members.values():
            member.share(rows)

    def choose(self, keys: Mapping[str, Sequence], limit: int) -> int:
        """Chooses the drafter of this round. ``keys``: the confidence keys of each drafter that has something to
        propose. Returns the draft length."""
        if self.gamma == 0:
            return 0
        if self.gamma is None:
            keys = {name: own for name, own in keys.items() if own != PER_TOKEN or not self.members[name].is_resting()}
        promises = {name: list(self.members[name].promises(own, limit)) for name, own in keys.items()}
        anywhere = (promise for name, own in keys.items() if own == PER_TOKEN for promise in promises[name])
        self.rate.floor = max([1.0, *(tokens / cost for _, tokens, cost in anywhere)])
        gain, gamma, name = max(
            (
                (tokens - self.rate.value * cost, gamma, name)
                for name, lengths in promises.items()
                for gamma, tokens, cost in (lengths if self.gamma is None else lengths[: self.gamma][-1:])
            ),
            default=(0.0, 0, ""),
        )
        self.drafter, self._length = name, gamma
        if self.gamma is None:
            if gain <= 1.0 - self.rate.value:  # a plain step yields one token for a cost of one
                self.drafter, self._length = self._next_to_try(keys, limit), 0
            if keys.get(self.drafter) == PER_TOKEN:
                self._length = len(promises[self.drafter])  # it may go on for as long as it is sure
        return self._length

    def _next_to_try(self, keys: Mapping[str, Sequence], limit: int) -> str:
        """Returns a drafter with a model whose drafts could pay, or ""."""
        models = (name for name, own in keys.items() if own == PER_TOKEN)
        return next((name for name in models if self.members[name].choose(PER_TOKEN, limit)), "")

    def worth_verifying(self, path: Sequence[Hashable]) -> bool:
        return self.gamma is not None or self.members[self.drafter].worth_verifying(path)

    def worth_drafting(self, path: Sequence[Hashable]) -> bool:
        return self.gamma is not None or self.members[self.drafter].worth_drafting(path)

    def tree_shape(self) -> Worthwhile | None:
        return self.members[self.drafter].tree_shape() if self.gamma is None else None

    def observe(self, keys, outcomes: Sequence[bool | None], *details, **more) -> None:
        name = self.drafter
        if not name:
            self.rate.add(1.0, 1.0)
        else:
            self.members[name].observe(keys[name], outcomes, *details, **more)
        self.drafter = ""
        for other, own in (keys or {}).items():
            if other != name:
                self.members[other].forget(own)  # so that it gets another chance
