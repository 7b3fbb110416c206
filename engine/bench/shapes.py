"""Compares a chain and a tree of the same EAGLE head: timed on this device, and predicted for one with other costs.

At temperature 0 all write the same text. Acceptances are measured in each; only the costs of the second pair are
assumed, and there the drafter chooses its shapes by them. Beside them stands the best static tree: one shape for every
round, from how often a draft was accepted in its turn among its siblings.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile, zip_longest
from typing import Any

from engine.bench.benchmark import Benchmark, Turn, request, warm_up
from engine.bench.prompts import Prompt
from engine.bench.sample import Sample
from engine.bench.systems import SpecLensSystem
from engine.decoding.draft_length import static_tree
from engine.device import to_device
from engine.errors import Unavailable
from engine.files import ProgressCallback
from engine.runtime.calibration import timings
from engine.runtime.engine import Engine
from engine.trace.events import CostModel
from engine.trace.speedup_model import predicted_speedup

CHAIN, TREE = "eagle-chain", "eagle"
HERE, ASSUMED = "here", "assumed"
_WARM_UP_TOKENS = 16
_FEWEST = 20  # tests of a rank that its share is taken from


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
    steps a round; ``predicted``: speedup over plain decoding by the costs of that place, ``costs``. ``by_rank``:
    (accepted, tested) of first, second, … siblings."""

    method: str
    where: str
    rate: float
    tau: float
    drafted: float
    steps: float
    predicted: float
    costs: CostModel
    by_rank: tuple[tuple[int, int], ...]

    @property
    def chances(self) -> list[float]:
        """Accepted ÷ tested by rank, up to the first that was tested fewer than 20 times."""
        known = takewhile(lambda counts: counts[1] >= _FEWEST, self.by_rank)
        return [accepted / tested for accepted, tested in known]

    def static_tree(self, chances: Sequence[float]) -> tuple[tuple[int, ...], float]:
        """The best tree that is the same each round by the costs of this place: its parents and predicted speedup."""
        return static_tree(chances, self.costs.c, self.costs.v)


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
    rounds: list[Any] = [round_ for sample in samples for round_ in sample.rounds]
    emitted, steps, drafted = (sum(round_[i] or 0 for round_ in rounds) for i in range(3))
    shape = [(tokens, (steps or 0) * costs.c, drafted) for tokens, steps, drafted, _ in rounds]
    counts = zip_longest(*(sample.by_rank for sample in samples), fillvalue=(0, 0))
    by_rank = tuple((sum(accepted for accepted, _ in each), sum(tested for _, tested in each)) for each in counts)
    return ShapeResult(
        method, where, emitted / sum(sample.decode_seconds for sample in samples), emitted / len(rounds),
        drafted / len(rounds), steps / len(rounds), predicted_speedup(shape, costs.v), costs, by_rank,
    )  # fmt: skip


def pass_seconds(engine: Engine, rows: int = 16, context: int = 128, repeats: int = 30) -> tuple[float, float, float]:
    """Median seconds, in turn: of a pass over a chain of ``rows`` tokens; of one over a binary tree of as many; of the
    latter with the cache cut back to one of its branches."""
    target, vocabulary = engine.target.runner, engine.target.runner.vocab_size
    tokens = to_device([i * 7 % vocabulary for i in range(rows)], target.device)
    parents = [i // 2 for i in range(rows - 1)]
    branch = [node for node in range(rows) if (node + 1) & node == 0]  # 0, 1, 3, 7, …

    def score(parents=None, path=None):
        target.forward(tokens, parents)
        if path:
            target.keep(context, path)
        target.rollback(context)

    try:
        target.reset(context + rows)
        target.prefill([i % vocabulary for i in range(context)])
        passes = {"chain": score, "tree": lambda: score(parents), "kept": lambda: score(parents, branch)}
        times = timings(passes, target.device, repeats)
    finally:
        target.release()
    chain, tree, cut = (statistics.median(seconds) for seconds in times.values())
    return chain, tree, cut
