"""Measures a trained draft in the real loop: α by draft position, τ and speedup."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from engine.bench.metrics import ALL
from engine.bench.prompts import Prompt
from engine.bench.sweep import Grid, Sweep
from engine.config import AUTO
from engine.files import ProgressCallback
from engine.runtime.engine import Engine
from engine.trace.noise import Speedup, about_machine


@dataclass(frozen=True)
class Evaluation:
    """by_depth: draft position → (accepted, tested) at a fixed γ; tau: tokens per target pass at it. speedup: decode
    tokens/s with γ = auto ÷ without drafts, over all prompts, each run right after the other; weights: the hash of the
    draft's weights, empty in files of older versions; ``low`` and ``high``: the 95 % interval of the speedup, ``most``:
    the largest that it can be; ``busy``: as of `Speedup`."""

    method: str
    temperature: float
    gamma: int
    prompts: int
    by_depth: dict[int, tuple[int, int]]
    tau: float
    speedup: float
    weights: str = ""
    low: float | None = None
    high: float | None = None
    most: float = math.inf
    busy: float | None = None

    @property
    def measured(self) -> Speedup:
        return Speedup(self.speedup, self.low, self.high, self.most, self.busy)

    def line(self) -> str:
        cells = ", ".join(f"{k}: {a / t:.3f} ({a}/{t})" for k, (a, t) in self.by_depth.items() if t)
        return (
            f"temperature {self.temperature:g}: speedup {self.measured.words} with γ = auto; at γ = {self.gamma} τ is "
            f"{self.tau:.2f} and α by position {cells}. {about_machine(self.busy)}"
        ).rstrip(". ")


def evaluate(
    engine: Engine, method: str, prompts: Sequence[Prompt], temperature: float, gamma: int, most: int,
    progress: ProgressCallback,
) -> Evaluation:  # fmt: skip
    """Runs each prompt three times: at ``gamma``, which tries every position, at auto, and without drafts."""
    sweep = Sweep(engine, Grid((method,), (gamma, AUTO), (temperature,), most), prompts)
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
    speedup = auto.measured
    return Evaluation(
        method,
        temperature,
        gamma,
        len(prompts),
        by_depth,
        fixed.tau,
        speedup.value,
        weights,
        speedup.low,
        speedup.high,
        speedup.ceiling,
        speedup.busy,
    )


def read_evaluations(path: Path) -> list[Evaluation]:
    """Returns what `training evaluate` stored; nothing where it has not run, or another program wrote the file."""
    try:
        return TypeAdapter(list[Evaluation]).validate_json(path.read_bytes())
    except (OSError, ValueError):
        return []
