"""Measures a trained draft in the real loop: α by draft position, τ and speedup."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from engine.config import AUTO
from engine.files import ProgressCallback
from engine.runtime.engine import Engine
from engine.tools.bench.metrics import ALL
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sweep import Grid, Sweep


@dataclass(frozen=True)
class Evaluation:
    """by_depth: draft position → (accepted, tested) at a fixed γ; tau: tokens per target pass at it. speedup: decode
    tokens/s with γ = auto ÷ without drafts, over all prompts, each run right after the other; weights: the hash of the
    draft's weights, empty in files of older versions; ``words``: the speedup with its interval, or noise; ``busy``: the
    largest share of the cores that other programs took."""

    method: str
    temperature: float
    gamma: int
    prompts: int
    by_depth: dict[int, tuple[int, int]]
    tau: float
    speedup: float
    weights: str = ""
    words: str = ""
    busy: float | None = None

    def line(self) -> str:
        cells = ", ".join(f"{k}: {a / t:.3f} ({a}/{t})" for k, (a, t) in self.by_depth.items() if t)
        speedup = self.words or f"{self.speedup:.2f}"
        return (
            f"temperature {self.temperature:g}: speedup {speedup} with γ = auto; at γ = {self.gamma} τ is "
            f"{self.tau:.2f} and α by position {cells}"
        )


def evaluate(
    engine: Engine, method: str, prompts: Sequence[Prompt], temperature: float, gamma: int, limit: int,
    progress: ProgressCallback,
) -> Evaluation:  # fmt: skip
    """Runs each prompt three times: at ``gamma``, which tries every position, at auto, and without drafts."""
    sweep = Sweep(engine, Grid((method,), (gamma, AUTO), (temperature,), limit), prompts)
    sweep.run(lambda fraction, message: progress(fraction, f"{method}, {message}"))
    fixed, auto = (
        next(c for c in sweep.cells() if c.category == ALL and c.gamma == length) for length in (gamma, AUTO)
    )
    depths: dict[int, tuple[int, int]] = {}
    for samples in sweep.benchmark.samples.values():
        for depth, (accepted, tested) in enumerate(samples[method, gamma].by_depth, 1):
            a, t = depths.get(depth, (0, 0))
            depths[depth] = a + accepted, t + tested
    by_depth, weights = dict(sorted(depths.items())), engine.drafts.hashes(method).get("draft", "")
    return Evaluation(
        method, temperature, gamma, len(prompts), by_depth, fixed.tau, auto.speedup, weights, auto.measured.words,
        auto.busy,
    )  # fmt: skip


def read_evaluations(path: Path) -> list[Evaluation]:
    """Returns what `training evaluate` stored; nothing where it has not run, or another program wrote the file."""
    try:
        return TypeAdapter(list[Evaluation]).validate_json(path.read_bytes())
    except (OSError, ValueError):
        return []
