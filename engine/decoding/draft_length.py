"""Decides how many tokens each round drafts (γ): fixed, adaptive, or as a trace recorded it.

`_gamma_policy` in `runtime/engine.py` picks the policy of a run, and each round asks its ``choose``.
`AdaptiveGamma` (γ = auto) decides from c, v(W) and the acceptance seen so far. It keeps one decaying estimate of α for
each confidence key of the drafter (n-gram: the length of the match; draft model: its highest probability), starting
from the drafter's ``priors``. A draft costs c, one draft step: `medusa` and `block` take one step a round, which
gives all its drafts (`Method.passes` in `config.py`), and all others take one for each draft.

If the keys are known before drafting, it chooses the length with the most expected tokens per cost (`best_length` of
`trace/speedup_model.py`). A draft model has a key only after each of its steps (``PER_TOKEN``). Two decisions are then
made per token: is this guess worth verifying, and is another draft step worth its cost (``worth_drafting``)? Both use
the distribution the token is drawn from, never the drawn token, because otherwise the output would not be exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf, prod
from typing import NamedTuple

from engine.config import MAX_NODES
from engine.drafters.base import PER_TOKEN, DraftOffer, DraftPolicy, GammaPolicy, Keys, Outcomes
from engine.drafters.token_tree import Plan, Worthwhile, is_first
from engine.trace.speedup_model import best_length, interpolate, shared_costs

PRIOR_WEIGHT = 4.0  # tests that the prior counts for
MEMORY = 24.0  # tests after which old evidence has faded to 1/e
RECOVERY = 0.02  # share of the way back to the prior in each round left undrafted
_RATE_MEMORY = 32.0  # rounds over which tokens per cost are averaged
_DEBT = 0.5  # plain steps that per-token decisions may lose before drafting pauses
_PRIOR_ROUNDS = 3.0  # rounds that the promise of rounds drafted token by token counts for, beside those it had
_PRIOR_RATE = 1.5  # the most that it counts for when such drafting loses time
_REST, _LONGEST_REST = 8, 64  # rounds of a pause


class FixedGamma(GammaPolicy):
    """Chooses one γ for all rounds, and learns nothing from them."""

    def __init__(self, gamma: int):
        self.gamma = gamma

    def length(self, keys: Keys, room: int) -> int:
        return min(self.gamma, room)


class Rate:
    """Tokens per cost of the recent rounds; a cost of 1 is a plain step. ``floor``: what can be had in any round."""

    def __init__(self):
        self.floor = 1.0
        self._tokens = self._cost = _RATE_MEMORY / 4  # a prior rate of 1: as good as plain

    @property
    def value(self) -> float:
        return max(self.floor, self._tokens / self._cost)

    def add(self, tokens: float, cost: float) -> None:
        fade = 1 - 1 / _RATE_MEMORY
        self._tokens, self._cost = fade * self._tokens + tokens, fade * self._cost + cost


class AdaptiveGamma(GammaPolicy, DraftPolicy):
    """Chooses the γ ≥ 0 with the most expected tokens per cost.

    ``c``: cost of a draft step, ``v``: cost of scoring W tokens, both in plain target steps. ``priors[PER_TOKEN]`` is α
    averaged over all keys. ``rate``: shared by the drafters that compete for a round. ``at_once``: whether one
    step gives all drafts of a round. ``keys`` always come from a `DraftOffer`.
    """

    def __init__(self, c: float, v: Mapping[int, float], priors: Mapping, limit=16, rate=None, at_once=False):
        self.priors, self.limit, self.at_once = priors, limit, at_once
        self._alone = c, v
        self.share(1)
        self.rate = rate or Rate()
        self._seen: dict = {}  # key -> (accepted, rejected), both decayed
        self._had = (0.0, 0.0, 0.0)  # its rounds drafted token by token: number, tokens and cost, all decayed
        self._balance, self._rest, self._rested = 0.0, _REST, 0

    def share(self, rows: int) -> None:
        """Takes the costs of a pass that ``rows`` requests share. A draft costs more there, so drafting fades out."""
        self.c, v = shared_costs(*self._alone, rows)
        self.v = {width: interpolate(v, width) for width in range(1, MAX_NODES + 2)}

    def alpha(self, key) -> float:
        prior = self.priors.get(key, 0.5)
        accepted, rejected = self._seen.get(key, (0.0, 0.0))
        return (accepted + PRIOR_WEIGHT * prior) / (accepted + rejected + PRIOR_WEIGHT)

    def length(self, keys: Keys, room: int) -> int:
        """Returns how many tokens to draft in this round, at most ``room``. For a drafter that decides token by token
        (PER_TOKEN) that is the largest number, because `worth_drafting` decides after each."""
        if keys == PER_TOKEN:
            if self.c + self._scoring(1) >= 1.0:
                return 0  # even a draft that is always accepted costs more than it saves
            return 0 if self.is_resting() else min(self.limit, room)
        alphas = [self.alpha(key) for key in keys[: min(self.limit, room)]]
        gamma = best_length(alphas, self.c, self.v, self.at_once)
        if gamma == 0:
            self.forget(keys)
        return gamma

    def is_resting(self) -> bool:
        """Returns whether drafting token by token pauses in this round, and counts the round."""
        rests = self._rested > 0
        self._rested -= rests
        return rests

    def promises(self, keys, limit: int) -> Iterator[tuple[int, float, float]]:
        """Yields (γ, expected tokens, cost) of rounds that draft 1, 2, … ``limit`` tokens. For a drafter that decides
        token by token they are by its prior, because `round_promise` adds what its rounds came to."""
        tokens, reached, limit = 1.0, 1.0, min(self.limit, limit)
        prior = [self.priors.get(PER_TOKEN, 0.5)] * limit
        for gamma, alpha in enumerate(prior if keys == PER_TOKEN else map(self.alpha, keys[:limit]), start=1):
            reached *= alpha
            tokens += reached
            yield gamma, tokens, (1 if self.at_once else gamma) * self.c + interpolate(self.v, gamma + 1)

    def round_promise(self, room: int, most: float = inf) -> tuple[int, float, float]:
        """Returns (γ, tokens, cost) of a round that drafts token by token: the best of its `promises`, up to ``most``
        tokens per cost, corrected by what such rounds came to."""
        promises = self.promises(PER_TOKEN, room)
        _, tokens, cost = max(promises, key=lambda each: each[1] / each[2])
        rate, (number, had_tokens, had_cost) = min(most, tokens / cost), self._had
        if number:
            rate = (_PRIOR_ROUNDS * rate + number * had_tokens / had_cost) / (_PRIOR_ROUNDS + number)
        return min(self.limit, room), rate * cost, cost

    def forget(self, keys) -> None:
        """Goes a little of the way back to the prior of the first key."""
        key = keys if keys == PER_TOKEN else keys[0]
        if key == PER_TOKEN:
            self._had = tuple((1 - RECOVERY) * each for each in self._had)
        if key in self._seen:
            self._fade(key, 1 - RECOVERY)

    def worth_verifying(self, path: Sequence) -> bool:
        """Returns whether verifying the last guess pays: the chance that it is accepted, against the tokens that the
        same time yields on average. ``path``: keys of the guesses so far."""
        reached = prod(self.alpha(s) for s in path)
        return reached >= self.rate.value * self._scoring(len(path))

    def worth_drafting(self, path: Sequence) -> bool:
        """Returns whether the next guess pays, which also costs a draft step."""
        reached = prod(self.alpha(s) for s in path) * self.alpha(PER_TOKEN)
        return reached >= self.rate.value * (self._scoring(len(path) + 1) + self.c)

    def _scoring(self, drafts: int) -> float:
        return interpolate(self.v, drafts + 1) - interpolate(self.v, drafts)

    def tree_shape(self) -> Worthwhile:
        """Keeps the guesses of a tree by the rule of `worth_verifying` and `worth_drafting`."""
        rate = self.rate.value
        return Worthwhile(self.alpha, lambda n: rate * (interpolate(self.v, n + 1) - 1.0), rate * self.c)

    def observe(self, keys, outcomes: Outcomes, path: Keys = (), steps: int = 0, scored: int | None = None) -> None:
        """Updates α from a round. ``outcomes``: whether each draft was accepted, None if it was not tested. ``path``:
        the keys of the round's drafts, where they are not a beginning of ``keys``; ``steps``: its draft steps;
        ``scored``: its drafts that were scored, where a constraint cut some of ``outcomes`` off, which cost no row."""
        for key, outcome in zip(path or keys or (), outcomes, strict=False):
            if outcome is None:
                continue
            self._count(key, outcome)
            if keys == PER_TOKEN and is_first(key):
                self._count(PER_TOKEN, outcome)
        rows = 1 + (len(outcomes) if scored is None else scored)
        tokens, cost = outcomes.count(True) + 1, steps * self.c + interpolate(self.v, rows)
        if keys != PER_TOKEN or steps:
            self.rate.add(tokens, cost)
        if keys == PER_TOKEN and steps:
            self._account(tokens, cost)

    def _account(self, tokens: int, cost: float) -> None:
        """Tracks the net gain of per-token decisions. Once it has lost ``_DEBT`` plain steps and a round no longer
        promises a gain, drafting pauses, with exponential back-off."""
        fade = 1 - 1 / MEMORY
        self._had = tuple(fade * had + new for had, new in zip(self._had, (1.0, tokens, cost), strict=True))
        self._balance = (1 - 1 / _RATE_MEMORY) * self._balance + tokens - cost
        _, expected, expected_cost = self.round_promise(self.limit, _PRIOR_RATE)
        if self._balance < -_DEBT and expected <= expected_cost:
            self._balance, self._rested = 0.0, self._rest
            self._rest = min(2 * self._rest, _LONGEST_REST)
        elif self._balance > _DEBT:
            self._rest = _REST

    def _count(self, key, is_accepted: bool) -> None:
        self._fade(key, 1 - 1 / MEMORY)
        accepted, rejected = self._seen[key]
        self._seen[key] = (accepted + is_accepted, rejected + (not is_accepted))

    def _fade(self, key, share: float) -> None:
        accepted, rejected = self._seen.get(key, (0.0, 0.0))
        self._seen[key] = (accepted * share, rejected * share)


class RecordedRound(NamedTuple):
    """A round to repeat. ``steps``: a draft model may have taken one more than it drafted tokens; ``drafter``: set
    where several compete; ``parents``: a tree's, as in `Draft`."""

    gamma: int
    steps: int
    drafter: str = ""
    parents: tuple[int, ...] = ()


class ReplayedGamma(GammaPolicy, DraftPolicy):
    """Repeats the γ of each recorded round of a run with γ = auto. Sharers change nothing, because they did so when it
    was recorded. The tokens are the same up to rounding: a replayed tree may be drafted in passes of other widths.

    ``rounds``: the fields of a `RecordedRound`, or γ alone. `observe` counts the rounds, because `choose` is not called
    in a round in which nothing can be drafted.
    """

    def __init__(self, rounds: Sequence[int | tuple]):
        self.rounds = [
            RecordedRound(*each) if isinstance(each, tuple) else RecordedRound(each, each) for each in rounds
        ]
        self._round, self._is_auto = 0, any(each.drafter for each in self.rounds)

    def choose(self, offers: Sequence[DraftOffer], room: int) -> tuple[DraftOffer | None, int]:
        named = {offer.drafter.name: offer for offer in offers}
        offer = named.get(self._current.drafter) if self._is_auto else offers[0]
        return offer, self.length(offer.keys, room) if offer else 0

    def length(self, keys: Keys, room: int) -> int:
        recorded = self._current
        return min(max(recorded.gamma, recorded.steps) if keys == PER_TOKEN else recorded.gamma, room)

    def worth_verifying(self, path: Sequence) -> bool:
        return len(path) <= self._current.gamma

    def worth_drafting(self, path: Sequence) -> bool:
        return len(path) < self._current.steps

    @property
    def _current(self) -> RecordedRound:
        return self.rounds[self._round] if self._round < len(self.rounds) else RecordedRound(0, 0)

    def tree_shape(self) -> Plan | None:
        """Returns the shape of the recorded tree; None where the round's was a chain."""
        return Plan(self._current.parents) if self._current.parents else None

    def observe(self, keys, outcomes, *details, **more) -> None:
        self._round += 1
