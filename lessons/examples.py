"""Holds the examples that one click fills in on the page, and whose prompts recorded runs name."""

from collections.abc import Container
from dataclasses import dataclass

from engine.config import AUTO, RunConfig, SamplingParams
from lessons.constraint_examples import CONSTRAINT_EXAMPLES


@dataclass(frozen=True)
class Example:
    """What one click fills in: a prompt, and the settings that show what can be gained on it. ``methods``: the first
    that a pair offers is taken. `python -m lessons examples` measures them."""

    prompt: str
    methods: tuple[str, ...] = (AUTO,)
    temperature: float = 0.0

    def method(self, offered: Container[str]) -> str:
        return next((method for method in self.methods if method in offered), AUTO)

    def config(self, pair: str, offered: Container[str], seed: int = 0) -> RunConfig:
        method, sampling = self.method(offered), SamplingParams(self.temperature)
        return RunConfig(self.prompt, pair, method, AUTO, sampling, seed=seed)


# The page starts with the first, because drafting pays most for text that repeats itself.
EXAMPLES = {
    "Rewrite": Example(
        "Correct the spelling mistakes in this note:\n\n"
        "The lighthouse keeper climed the stairs every evening at six. He cleaned the glass, filled the lamp with "
        "oil, and wrote the weather in his book. The lighthouse keeper had done this for forty yeers, and every "
        "evening at six the ships were glad of the light.",
        temperature=0.4,
    ),
    "Fact": Example("Why is the sky blue?"),
    "Code": Example("Write Python functions add, subtract, multiply and divide."),
    "Story": Example("Tell a short story about a robot who learns to bake bread."),
}

# The prompts that recordings.toml names: the page's, and those that only lessons ask.
RECORDED = EXAMPLES | {
    "Stack": Example(
        "Write a Python class Stack with the methods push, pop, peek and is_empty, then show how to use it."
    ),
    "Person": Example(CONSTRAINT_EXAMPLES["json_schema"].prompt),
}
