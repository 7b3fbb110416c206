"""What a draft is worth in the real loop: α by draft position, τ and speedup, counted from traces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.bench import Prompt
from engine.config import RunConfig, SamplingParams
from engine.loading import Engine
from engine.statistics import statistics
from engine.trace import fold

Say = Callable[[float, str], None]


@dataclass(frozen=True)
class Evaluation:
    """by_depth: draft position → (accepted, tested) at a fixed γ. tau: tokens per target pass at that γ."""

    method: str
    temperature: float
    by_depth: dict[int, tuple[int, int]]
    tau: float
    tokens: int

    def table(self) -> str:
        cells = [f"{k}: {a / t:.3f} ({a}/{t})" for k, (a, t) in self.by_depth.items() if t]
        return f"{self.method} at temperature {self.temperature:g}: τ {self.tau:.3f}; α by position " + ", ".join(cells)


def evaluate(
    engine: Engine, method: str, prompts: Sequence[Prompt], temperature: float, gamma: int, most: int, say: Say
) -> Evaluation:
    """γ is fixed so that every position is tried; each prompt runs once with its own seed."""
    depths: dict[int, tuple[int, int]] = {}
    emitted = passes = 0
    for i, prompt in enumerate(prompts):
        config = RunConfig(
            prompt.text, engine.pair.name, method, gamma, SamplingParams(temperature), max_new_tokens=most, seed=i,
            chat=bool(engine.target.tokenizer.chat_template),
        )  # fmt: skip
        numbers = statistics(fold(engine.run(config)))
        emitted, passes = emitted + numbers.tokens, passes + numbers.passes
        for depth, (accepted, tested) in numbers.by_depth.items():
            a, t = depths.get(depth, (0, 0))
            depths[depth] = (a + accepted, t + tested)
        say((i + 1) / len(prompts), f"{method}, temperature {temperature:g}: {i + 1} of {len(prompts)} prompts")
    return Evaluation(method, temperature, dict(sorted(depths.items())), emitted / max(passes, 1), emitted)
