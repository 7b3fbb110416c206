"""What if α were 0.8? Drafts are kept with a chance set by hand, whatever the models think of them.

The text is no longer the target's and says so by never being shown: what is kept is time. So measured and predicted
speedup can be compared over the whole range of α on this device, with the real costs of the real models.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from engine.acceptance import Verdict, accept_chain
from engine.config import RunConfig
from engine.decode import TRUE_RULES, Rules
from engine.errors import BadInput
from engine.events import CostModel, Round
from engine.loading import Engine
from engine.sampling import draw
from engine.theory import expected_tokens, idealised_speedup


def keeping(alpha: float) -> Rules:
    """Rules that keep each draft with chance ``alpha`` up to the first refusal; the round closes with a draw from p."""

    def rule(p, q, tokens, u, u_closing) -> Verdict:
        N = len(tokens)
        if N == 0:
            return accept_chain(p, q, tokens, u, u_closing)
        kept = (u < alpha).long().cumprod(0)
        last = kept.sum()
        at = last.view(1)
        tested = torch.arange(N, device=p.device) <= last
        return Verdict(kept.bool(), tested, torch.full_like(u, alpha), last, draw(p[at], u_closing[at])[0], p[at][0])

    return Rules(chain=rule)


@dataclass(frozen=True)
class Point:
    """``tau``: tokens a target pass; ``expected``: the same by (1 − α^(γ+1)) / (1 − α). ``predicted``: the idealised
    speedup with this device's costs. ``alpha`` was set, ``seen`` counted (None where nothing was tested)."""

    alpha: float
    gamma: int
    seen: float | None
    tau: float
    expected: float
    speedup: float
    predicted: float


@dataclass(frozen=True)
class Timed:
    """One run, by its counts and its seconds of decoding."""

    tokens: int
    passes: int
    seconds: float
    accepted: int
    tested: int

    @property
    def rate(self) -> float:
        """Seconds a token."""
        return self.seconds / self.tokens


@dataclass(frozen=True)
class Turn:
    """A run with drafts kept by chance, and the plain run just before it."""

    plain: Timed
    ours: Timed


def measure(
    engine: Engine,
    config: RunConfig,
    alphas: Sequence[float],
    gammas: Sequence[int],
    repeats: int = 1,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Point]:
    """A point for each α and γ, as they come; each beside plain runs of its own, the smallest times counting."""
    for alpha in alphas:
        for gamma in gammas:
            check(alpha, gamma)
    costs = warm(engine, config, cancelled)
    for gamma in gammas:
        for alpha in alphas:
            turns = [turn(engine, config, alpha, gamma, cancelled) for _ in range(repeats)]
            if None in turns:
                return
            yield point(alpha, gamma, turns, costs)


def check(alpha: float, gamma: int) -> None:
    """BadInput for what cannot be set by hand."""
    if not 0 <= alpha <= 1:
        raise BadInput("α is a chance: choose values from 0 to 1.")
    if type(gamma) is not int or gamma < 1:
        raise BadInput("γ must be fixed here, 1 or more: what would be chosen from α is what is to be seen.")


def warm(engine: Engine, config: RunConfig, cancelled: Callable[[], bool] = lambda: False) -> CostModel:
    """Short runs of both kinds, whose times count for nothing; what the method costs on this device."""
    for config_ in (_plain(config), replace(config, gamma=1, trace=False)):
        _timed(engine, replace(config_, max_new_tokens=min(8, config.max_new_tokens)), TRUE_RULES, cancelled)
    return engine.costs(config.method)


def turn(
    engine: Engine, config: RunConfig, alpha: float, gamma: int, cancelled: Callable[[], bool] = lambda: False
) -> Turn | None:
    """One plain run and one with drafts kept by chance; None where it was cancelled, for half a run says nothing."""
    check(alpha, gamma)
    plain = _timed(engine, _plain(config), TRUE_RULES, cancelled)
    ours = _timed(engine, replace(config, gamma=gamma, trace=False), keeping(alpha), cancelled)
    return None if cancelled() else Turn(plain, ours)


def point(alpha: float, gamma: int, turns: Sequence[Turn], costs: CostModel) -> Point:
    """The fastest run of either kind counts: whatever else the machine does only ever slows one down."""
    base, ours = (min(side, key=lambda run: run.rate) for side in zip(*((t.plain, t.ours) for t in turns), strict=True))
    return Point(
        alpha, gamma, ours.accepted / ours.tested if ours.tested else None, ours.tokens / ours.passes,
        expected_tokens(alpha, gamma), base.rate / ours.rate, idealised_speedup(alpha, gamma, costs.c, costs.v),
    )  # fmt: skip


def _plain(config: RunConfig) -> RunConfig:
    return replace(config, method="none", gamma=0, trace=False)


def _timed(engine: Engine, config: RunConfig, rules: Rules, cancelled) -> Timed:
    rounds = [e for e in engine.run(config, cancelled, rules=rules, ends=False) if isinstance(e, Round)]
    tokens = [t for r in rounds for t in r.tokens]
    return Timed(
        tokens=max(1, sum(t.emitted for t in tokens)),
        passes=max(1, len(rounds)),
        seconds=rounds[-1].end - rounds[0].start if rounds else 0.0,
        accepted=sum(t.status == "accepted" for t in tokens),
        tested=sum(t.status in ("accepted", "rejected") for t in tokens),
    )
