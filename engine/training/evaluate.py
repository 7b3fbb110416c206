"""What a draft is worth in the real loop: α by draft position, τ and speedup, counted from traces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.bench import Prompt
from engine.config import AUTO, RunConfig, SamplingParams
from engine.loading import Engine
from engine.statistics import Statistics, statistics
from engine.trace import fold

Say = Callable[[float, str], None]


@dataclass(frozen=True)
class Evaluation:
    """by_depth: draft position → (accepted, tested) at a fixed γ; tau: tokens per target pass at it. speedup: decode
    tokens/s with γ = auto ÷ without drafts, over all prompts, each run right after the other."""

    method: str
    temperature: float
    gamma: int
    prompts: int
    by_depth: dict[int, tuple[int, int]]
    tau: float
    speedup: float

    def line(self) -> str:
        cells = ", ".join(f"{k}: {a / t:.3f} ({a}/{t})" for k, (a, t) in self.by_depth.items() if t)
        return (
            f"temperature {self.temperature:g}: speedup {self.speedup:.2f} with γ = auto; at γ = {self.gamma} τ is "
            f"{self.tau:.2f} and α by position {cells}"
        )


def evaluate(
    engine: Engine, method: str, prompts: Sequence[Prompt], temperature: float, gamma: int, most: int, say: Say
) -> Evaluation:
    """Each prompt three times: at ``gamma``, so that every position is tried, with γ = auto, and without drafts."""
    runs: dict[object, list[Statistics]] = {gamma: [], AUTO: [], 0: []}
    for i, prompt in enumerate(prompts):
        config = RunConfig(
            prompt.text, engine.pair.name, method, sampling=SamplingParams(temperature), max_new_tokens=most, seed=i,
            chat=bool(engine.target.tokenizer.chat_template),
        )  # fmt: skip
        for length, seen in runs.items():
            asked = replace(config, gamma=length, method=method if length else "none")
            seen.append(statistics(fold(engine.run(asked))))
        say((i + 1) / len(prompts), f"{method}, temperature {temperature:g}: {i + 1} of {len(prompts)} prompts")
    depths: dict[int, tuple[int, int]] = {}
    for numbers in runs[gamma]:
        for depth, (accepted, tested) in numbers.by_depth.items():
            a, t = depths.get(depth, (0, 0))
            depths[depth] = (a + accepted, t + tested)
    speed = {length: _total(seen, "tokens") / _total(seen, "decode_seconds") for length, seen in runs.items()}
    tau = _total(runs[gamma], "tokens") / _total(runs[gamma], "passes")
    by_depth = dict(sorted(depths.items()))
    return Evaluation(method, temperature, gamma, len(prompts), by_depth, tau, speed[AUTO] / speed[0])


def _total(seen: Sequence[Statistics], name: str) -> float:
    return sum(getattr(numbers, name) for numbers in seen)
