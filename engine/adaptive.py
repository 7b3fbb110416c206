"""γ = auto: choose each round's draft length from measured costs and the acceptance seen so far.

The chooser keeps one estimate of α for each *situation* the drafter names (prompt lookup: how long its match is),
starting at a shipped prior and forgetting slowly. A situation that has been refused drifts back towards its prior
while it is not drafted, so a text that turns predictable is noticed again at the price of a rare probe.
"""

from collections.abc import Mapping, Sequence

from engine.theory import best_gamma

PRIOR_WEIGHT = 4.0  # tests that the prior counts for
MEMORY = 24.0  # tests after which old evidence has faded to 1/e
RECOVERY = 0.02  # share of the way back to the prior in each round left undrafted


class FixedGamma:
    """The same γ every round."""

    def __init__(self, gamma: int):
        self.gamma = gamma

    def choose(self, situation, most: int) -> int:
        return min(self.gamma, most)

    def observe(self, situation, tested: int, accepted: int) -> None:
        pass


class AutoGamma:
    """γ ≥ 0 that maximises (1 − α^(γ+1))/(1 − α) ÷ (γ·c + v(γ+1)) for the situation at hand."""

    def __init__(self, c: float, v: Mapping[int, float], priors: Mapping, most: int = 16):
        self.c, self.v, self.priors, self.most = c, v, priors, most
        self._seen: dict = {}  # situation -> (accepted, refused), both decayed

    def alpha(self, situation) -> float:
        prior = self.priors.get(situation, 0.5)
        accepted, refused = self._seen.get(situation, (0.0, 0.0))
        return (accepted + PRIOR_WEIGHT * prior) / (accepted + refused + PRIOR_WEIGHT)

    def choose(self, situation, most: int) -> int:
        gamma = best_gamma(self.alpha(situation), self.c, self.v, min(self.most, most))
        if gamma == 0 and situation in self._seen:
            accepted, refused = self._seen[situation]
            self._seen[situation] = (accepted * (1 - RECOVERY), refused * (1 - RECOVERY))
        return gamma

    def observe(self, situation, tested: int, accepted: int) -> None:
        if tested == 0:
            return
        fade = (1 - 1 / MEMORY) ** tested
        kept, refused = self._seen.get(situation, (0.0, 0.0))
        self._seen[situation] = (kept * fade + accepted, refused * fade + (tested - accepted))


class PinnedGamma:
    """The γ of each round as a trace recorded it, so that a run with γ = auto can be repeated exactly."""

    def __init__(self, gammas: Sequence[int]):
        self._rest = iter(gammas)

    def choose(self, situation, most: int) -> int:
        return min(next(self._rest, 0), most)

    def observe(self, situation, tested: int, accepted: int) -> None:
        pass
