"""γ = auto: choose each round's draft length from measured costs and the acceptance seen so far.

The chooser keeps one estimate of α for each *situation* the drafter names (prompt lookup: how long its match is),
starting at a shipped prior and forgetting slowly. A situation that has been refused drifts back towards its prior
while it is not drafted, so a text that turns predictable is noticed again at the price of a rare probe.
"""

from collections.abc import Mapping, Sequence

from engine.theory import best_length

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
    """γ ≥ 0 with the most expected tokens per cost for the situation at hand.

    ``deeper`` maps a situation to the one that a kept draft leads to, so that acceptance may change with depth: a
    prompt lookup whose first guess is right has found a longer match.
    """

    def __init__(self, c: float, v: Mapping[int, float], priors: Mapping, deeper=lambda situation: situation, most=16):
        self.c, self.v, self.priors, self.deeper, self.most = c, v, priors, deeper, most
        self._seen: dict = {}  # situation -> (accepted, refused), both decayed

    def alpha(self, situation) -> float:
        prior = self.priors.get(situation, 0.5)
        accepted, refused = self._seen.get(situation, (0.0, 0.0))
        return (accepted + PRIOR_WEIGHT * prior) / (accepted + refused + PRIOR_WEIGHT)

    def choose(self, situation, most: int) -> int:
        gamma = best_length([self.alpha(s) for s in self._path(situation, min(self.most, most))], self.c, self.v)
        if gamma == 0 and situation in self._seen:
            self._fade(situation, 1 - RECOVERY)
        return gamma

    def observe(self, situation, tested: int, accepted: int) -> None:
        """``tested`` drafts were looked at and the first ``accepted`` of them kept."""
        for i, s in enumerate(self._path(situation, tested)):
            self._fade(s, 1 - 1 / MEMORY)
            kept, refused = self._seen[s]
            self._seen[s] = (kept + (i < accepted), refused + (i >= accepted))

    def _path(self, situation, length: int):
        for _ in range(length):
            yield situation
            situation = self.deeper(situation)

    def _fade(self, situation, share: float) -> None:
        kept, refused = self._seen.get(situation, (0.0, 0.0))
        self._seen[situation] = (kept * share, refused * share)


class PinnedGamma:
    """The γ of each round as a trace recorded it, so that a run with γ = auto can be repeated exactly.

    Rounds are counted where they are observed, which is each of them: where nothing can be drafted nobody chooses.
    """

    def __init__(self, gammas: Sequence[int]):
        self.gammas, self._round = list(gammas), 0

    def choose(self, situation, most: int) -> int:
        return min(self.gammas[self._round], most) if self._round < len(self.gammas) else 0

    def observe(self, situation, tested: int, accepted: int) -> None:
        self._round += 1
