"""Compares a chain and a tree of the same EAGLE head: timed on this device, and predicted for one with other costs.

Both pairs of runs write the same text, so acceptances are measured in each; only the costs of the second are assumed,
and there the drafter chooses its shapes by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from engine.bench.benchmark import Benchmark, Turn, request, warm_up
from engine.bench.prompts import Prompt
from engine.bench.sample import Sample
from engine.bench.systems import SpecLensSystem
from engine.errors import Unavailable
from engine.runtime.engine import Engine
from engine.trace.events import CostModel, ProgressCallback
from engine.trace.speedup_model import predicted_speedup

CHAIN, TREE = "eagle-chain", "eagle"
HERE, ASSUMED = "here", "assumed"
_WARM_UP_TOKENS = 16


@dataclass
class ShapeSystem(SpecLensSystem):
    """A method under ``costs`` that are measured or assumed."""

    where: str = HERE

    @property
    def setting(self) -> str:
        return self.where


@dataclass(frozen=True)
class ShapeResult:
    """One method at one place. ``rate``: tokens/s; ``tau``: tokens a round; ``drafted`` and ``steps``: nodes and draft
    steps a round; ``predicted``: speedup over plain decoding by the costs of that place."""

    method: str
    where: str
    rate: float
    tau: float
    drafted: float
    steps: float
    predicted: float


def compare(
    engine: Engine, prompts: Sequence[Prompt], max_new_tokens: int, slope: float, temperature: float = 0.0,
    seed: int = 0, progress: ProgressCallback = lambda share, message: None,
) -> list[ShapeResult]:  # fmt: skip
    """Runs chain and tree in turn on every prompt, first with the costs of this device, then with v(W) = 1 + slope ·
    (W − 1). Raises Unavailable for a pair without a head."""
    if TREE not in engine.methods:
        raise Unavailable(f"{engine.pair.name} has no EAGLE head; choose a pair with one.")
    here = engine.costs(CHAIN)  # for both, because a tree's step is the same pass of the same head
    costs = {HERE: here, ASSUMED: replace(here, v={1: 1.0, 2: 1.0 + slope})}
    places = {(method, where): costs[where] for where, method in product(costs, (CHAIN, TREE))}
    systems = [ShapeSystem(engine, method, costs=each, where=where) for (method, where), each in places.items()]
    turns = [
        Turn(
            (at,),
            prompt.category,
            replace(request(engine, prompt.text, temperature, max_new_tokens, seed), trace=False),
            systems,
        )
        for at, prompt in enumerate(prompts)
    ]
    warm_up(systems, turns[0].config, _WARM_UP_TOKENS)
    benchmark = Benchmark(turns)
    benchmark.run(progress)
    samples = benchmark.samples.values()
    return [_result(*place, costs, [each[place] for each in samples]) for place, costs in places.items()]


def _result(method: str, where: str, costs: CostModel, samples: Sequence[Sample]) -> ShapeResult:
    rounds = [round_ for sample in samples for round_ in sample.rounds]
    emitted, steps, drafted = (sum(round_[i] for round_ in rounds) for i in range(3))
    shape = [(tokens, steps * costs.c, drafted) for tokens, steps, drafted, _ in rounds]
    return ShapeResult(
        method, where, emitted / sum(sample.decode_seconds for sample in samples), emitted / len(rounds),
        drafted / len(rounds), steps / len(rounds), predicted_speedup(shape, costs.v),
    )  # fmt: skip
