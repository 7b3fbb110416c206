"""Measures a sweep, one turn a unit of work: one prompt at one temperature, plain decoding and every setting.

Finished turns are lines of a file that is named after the sweep, so a sweep that was stopped, by this visitor or
another, goes on from there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from app.lab.work_units import Points, tidy
from app.views.figures import setting_title
from engine.tools.bench.prompts import SHIPPED, Prompt, by_category, read_prompts
from engine.tools.bench.sweep_results import Cell

OWN = "your text"


@dataclass(frozen=True)
class SweepPlan:
    """``each``: prompts of each category; ``own``: a prompt of the visitor's, "" for none."""

    methods: tuple[str, ...]
    gammas: tuple[int | str, ...]
    temperatures: tuple[float, ...]
    categories: tuple[str, ...]
    each: int = 1
    own: str = ""
    repeats: int = 1
    tokens: int = 64

    @property
    def texts(self) -> list[tuple[str, str]]:
        """(category, prompt), one of each category after the other, so that a sweep is soon a little of everything."""
        groups = {name: texts[: self.each] for name, texts in prompts().items() if name in self.categories}
        texts = [(name, group[i]) for i in range(self.each) for name, group in groups.items() if i < len(group)]
        return [(OWN, self.own), *texts] if self.own.strip() else texts

    @property
    def turns(self) -> int:
        return len(self.texts) * len(self.temperatures) * self.repeats

    @property
    def runs(self) -> int:
        """Plain decoding is one more in each turn."""
        return self.turns * (len(self.methods) * len(self.gammas) + 1)


@dataclass(frozen=True)
class SweepResult:
    """A visitor's latest sweep. Without cells it is empty."""

    pair: str
    plan: SweepPlan
    cells: tuple[Cell, ...] = ()
    is_complete: bool = False

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def part_shown(self) -> float:
        """The temperature that is shown first."""
        return self.plan.temperatures[0]


@lru_cache
def prompts() -> dict[str, list[str]]:
    """Returns the shipped prompts by category, in file order; no draft was trained on them."""
    groups = by_category(read_prompts(SHIPPED))
    return {name: [prompt.text for prompt in group] for name, group in groups.items()}


class SweepPoints(Points):
    """The turns of a sweep: each runs plain decoding, then every setting."""

    def __init__(self, engine, pair: str, plan: SweepPlan, again: bool):
        from engine.files import cache_root
        from engine.tools.bench.sweep import Grid, Sweep

        grid = Grid(plan.methods, plan.gammas, plan.temperatures, plan.tokens, plan.repeats)
        prompts = [Prompt(text, category) for category, text in plan.texts]
        self.sweep = Sweep(engine, grid, prompts, folder=cache_root() / "lab", again=again)
        self.pair, self.plan = pair, plan
        tidy(self.sweep.benchmark.file.path)

    def warm(self, cancelled) -> None:
        self.sweep.warm(cancelled)

    def missing(self) -> Sequence:
        return self.sweep.benchmark.missing()

    def forget_noise(self) -> None:
        self.sweep.forget_noise()

    def measure(self, point, cancelled) -> Iterator[tuple[str, float]]:
        for number, system in enumerate(self.sweep.benchmark.steps(point, cancelled)):
            yield f"{point.name}: {setting_title(system.name, system.setting)}", number

    def size(self) -> tuple[int, int]:
        """Counts the runs that are done, and all of them."""
        settings, turns = len(self.sweep.grid.settings()), len(self.sweep.benchmark.turns)
        return (turns - len(self.missing())) * settings, turns * settings

    def result(self) -> SweepResult:
        return SweepResult(self.pair, self.plan, tuple(self.sweep.cells()), not self.missing())
