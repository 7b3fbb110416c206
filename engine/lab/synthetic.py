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
from engine.events import Round
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
    speedup with this device's costs. ``alpha`` was set, ``seen`` counted."""

    alpha: float
    gamma: int
    seen: float
    tau: float
    expected: float
    speedup: float
    predicted: float


def measure(
    engine: Engine,
    config: RunConfig,
    alphas: Sequence[float],
    gammas: Sequence[int],
    repeats: int = 1,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Point]:
    """A point for each α and γ, as they come; each beside a plain run of its own, the smallest times counting."""
    if not all(0 <= a <= 1 for a in alphas):
        raise BadInput("α is a chance: choose values from 0 to 1.")
    if not all(type(g) is int and g >= 1 for g in gammas):
        raise BadInput("γ must be fixed here, 1 or more: what would be chosen from α is what is to be seen.")
    plain = replace(config, method="none", gamma=0, trace=False)
    for config_ in (plain, replace(config, gamma=1, trace=False)):  # warm
        _timed(engine, replace(config_, max_new_tokens=min(8, config.max_new_tokens)), TRUE_RULES, cancelled)
    costs = engine.costs(config.method)
    for gamma in gammas:
        for alpha in alphas:
            asked, rules = replace(config, gamma=gamma, trace=False), keeping(alpha)
            runs = [
                (_timed(engine, plain, Rules(), cancelled), _timed(engine, asked, rules, cancelled))
                for _ in range(repeats)
            ]
            if cancelled():
                return
            base, ours = (min(side, key=lambda run: run.rate) for side in zip(*runs, strict=True))
            yield Point(
                alpha, gamma, ours.accepted / ours.tested if ours.tested else 0.0, ours.tokens / ours.passes,
                expected_tokens(alpha, gamma), base.rate / ours.rate, idealised_speedup(alpha, gamma, costs.c, costs.v),
            )  # fmt: skip


@dataclass(frozen=True)
class _Timed:
    tokens: int
    passes: int
    seconds: float
    accepted: int
    tested: int

    @property
    def rate(self) -> float:
        """Seconds a token."""
        return self.seconds / self.tokens


def _timed(engine: Engine, config: RunConfig, rules: Rules, cancelled) -> _Timed:
    rounds = [e for e in engine.run(config, cancelled, rules=rules, ends=False) if isinstance(e, Round)]
    tokens = [t for r in rounds for t in r.tokens]
    return _Timed(
        tokens=max(1, sum(t.emitted for t in tokens)),
        passes=max(1, len(rounds)),
        seconds=rounds[-1].end - rounds[0].start if rounds else 0.0,
        accepted=sum(t.status == "accepted" for t in tokens),
        tested=sum(t.status in ("accepted", "rejected") for t in tokens),
    )
