"""Measures speedups at an α set by hand: drafts are accepted with that chance, p and q count for nothing.

The text is then not the target's, so it is never shown; only times are kept. Measured and predicted speedup can so be
compared over the whole range of α on this device, with the real costs of the real models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from engine.config import ACCEPTANCE, RunConfig, method_of
from engine.decoding.loop import TRUE_RULES, Rules
from engine.errors import BadInput
from engine.runtime.engine import Engine
from engine.tools.bench.benchmark import Benchmark, Cancelled, Turn, describe, never, sample_file, warm_up
from engine.tools.bench.metrics import summary
from engine.tools.bench.sample import BASELINE, PairedRun, Point
from engine.tools.bench.systems import SpecLensSystem
from engine.trace.costs import CostModel

_CHAINS = {"eagle": "eagle-chain"}  # α is defined for a chain


def accept_with_probability(alpha: float) -> Rules:
    """Returns rules that accept each draft with chance ``alpha`` up to the first rejection, then draw from p."""

    verify_chain = TRUE_RULES.function(ACCEPTANCE["token"].chain)

    def accept_by_chance(p, q, tokens, u, u_closing):
        path = (u < alpha).long().cumprod(0)  # [N]
        last = path.sum()
        row = last.view(1)
        verdict = verify_chain(p[row], None, tokens[:0], u[:0], u_closing[row])  # without drafts, from p
        tested = torch.arange(len(tokens), device=p.device) <= last
        return verdict._replace(path=path.bool(), tested=tested, accept=torch.full_like(u, alpha), last=last)

    return Rules(verdicts={ACCEPTANCE["token"].chain: accept_by_chance})


def measure(
    engine: Engine, config: RunConfig, alphas: Sequence[float], gammas: Sequence[int], repeats: int = 1,
    out: Path | None = None, cancelled: Cancelled = never,
) -> Iterator[Point]:  # fmt: skip
    """Yields a point for each γ and α, each beside plain runs of its own; ``out`` is resumed where it exists."""
    keys = [[(alpha, gamma, repeat) for repeat in range(repeats)] for gamma in gammas for alpha in alphas]
    turns = [turn(engine, config, *key) for group in keys for key in group]
    about = describe(engine, [config.method]) | {
        "prompt": config.prompt, "max_new_tokens": config.max_new_tokens, "seed": config.seed,
        "seeds": "one for each repeat",
    }  # fmt: skip
    benchmark = Benchmark(turns, sample_file(out, about))
    if benchmark.missing():
        warm(engine, config, cancelled)
    for group in keys:
        for each in (each for each in benchmark.missing() if each.key in group):
            if not benchmark.measure(each, cancelled):
                return
        yield point(*group[0][:2], [PairedRun(*benchmark.samples[key].values()) for key in group])


def _chain(config: RunConfig) -> str:
    return _CHAINS.get(config.method, config.method)


def turn(engine: Engine, config: RunConfig, alpha: float, gamma: int, repeat: int) -> Turn:
    """Pairs a plain run with one whose drafts are accepted by chance. Each repeat has a seed of its own, because chance
    would otherwise decide alike in all. Raises BadInput for a wrong α or γ."""
    if not 0 <= alpha <= 1:
        raise BadInput("α is a chance: choose values from 0 to 1.")
    if type(gamma) is not int or gamma < 1:
        raise BadInput("γ must be fixed here, 1 or more: auto would choose it from the α that is to be seen.")
    if not method_of(config.method).drafts_one_by_one:
        raise BadInput(
            "These curves pay one step for each draft of a chain; Medusa and block heads take one for all, and "
            "lookahead drafts a tree. Choose another method."
        )
    drafted = SpecLensSystem(
        engine, _chain(config), gamma=gamma, rules=accept_with_probability(alpha), stop_at_eos=False
    )
    systems = SpecLensSystem(engine, BASELINE, stop_at_eos=False), drafted
    config = replace(config, seed=config.seed + repeat, trace=False)
    return Turn((alpha, gamma, repeat), f"α = {alpha:g}, γ = {gamma}", config, systems)


def warm(engine: Engine, config: RunConfig, cancelled: Cancelled = never) -> CostModel:
    """Runs both kinds for a few tokens; returns the method's costs on this device."""
    systems = (SpecLensSystem(engine, method, gamma=1, stop_at_eos=False) for method in (BASELINE, _chain(config)))
    warm_up(systems, replace(config, trace=False), cancelled)
    return engine.costs(_chain(config))


def measure_turn(
    engine: Engine, config: RunConfig, alpha: float, gamma: int, repeat: int, cancelled: Cancelled = never
) -> PairedRun | None:
    """Measures one turn. Returns None where it was cancelled."""
    benchmark = Benchmark([turn(engine, config, alpha, gamma, repeat)])
    if not benchmark.run(cancelled=cancelled):
        return None
    (samples,) = benchmark.samples.values()
    return PairedRun(*samples.values())


def point(alpha: float, gamma: int, turns: Sequence[PairedRun]) -> Point:
    """Adds up all turns: tokens per second with drafts over tokens per second without."""
    numbers = summary([turn.ours for turn in turns], [turn.plain for turn in turns])
    ends = numbers["ci95"] or (None, None)
    return Point(alpha, gamma, numbers["acceptance"], numbers["tau"], numbers["speedup"], tuple(turns), *ends)
