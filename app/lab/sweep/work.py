"""Measures a sweep, one turn a unit of work: one prompt at one temperature, plain decoding and every setting.

Finished turns are lines of a file that is named after the sweep, so a sweep that was stopped, by this visitor or
another, goes on from there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from app.jobs.runs import Work
from app.jobs.updates import Report
from app.lab.work_units import tidy
from engine.bench.prompts import Prompt, by_category, read_prompts
from engine.bench.sample import BASELINE
from engine.bench.sweep_results import Cell
from engine.files import ASSETS

PROMPTS = ASSETS / "data" / "prompts.jsonl"
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
class SweepProgress:
    """``done`` of ``of`` runs; ``doing``: the one under way, "" at the end of a turn. ``cells`` None: as before."""

    done: int
    of: int
    doing: str = ""
    cells: tuple[Cell, ...] | None = None

    @property
    def is_complete(self) -> bool:
        return self.done >= self.of


@lru_cache
def prompts() -> dict[str, list[str]]:
    """The shipped prompts by category, in file order; no draft was trained on them."""
    groups = by_category(read_prompts(PROMPTS))
    return {name: [prompt.text for prompt in group] for name, group in groups.items()}


def work_units(plan: SweepPlan, latest: Callable[[], SweepProgress | None], afresh: bool = False) -> Iterator[Work]:
    """The turns measured before, then turn after turn until none is missing. ``latest``: the report that came in last.
    ``afresh`` forgets the turns measured before."""
    yield _look(plan, afresh)
    first = True
    while not latest().is_complete:
        yield _turn(plan, first)
        first = False


def _look(plan: SweepPlan, afresh: bool) -> Work:
    def work(engine, cancelled):
        yield Report(_progress(_open(engine, plan, afresh)))

    return work


def _turn(plan: SweepPlan, first: bool) -> Work:
    def work(engine, cancelled):
        sweep = _open(engine, plan)
        before, missing = _progress(sweep), sweep.benchmark.missing()
        if missing:
            if first:
                yield Report(SweepProgress(before.done, before.of, "warming up"))
                sweep.warm(cancelled)
            for number, system in enumerate(sweep.benchmark.steps(missing[0], cancelled)):
                how = "plain decoding" if system.name == BASELINE else f"{system.name}, γ = {system.setting}"
                yield Report(SweepProgress(before.done + number, before.of, f"{missing[0].name}: {how}"))
        if not cancelled():
            yield Report(_progress(sweep))

    return work


def _open(engine, plan: SweepPlan, afresh: bool = False):
    from engine.bench.sweep import Grid, Sweep
    from engine.files import cache_root

    grid = Grid(plan.methods, plan.gammas, plan.temperatures, plan.tokens, plan.repeats)
    prompts = [Prompt(text, category) for category, text in plan.texts]
    sweep = Sweep(engine, grid, prompts, folder=cache_root() / "lab", afresh=afresh)
    tidy(sweep.benchmark.file.path)
    return sweep


def _progress(sweep) -> SweepProgress:
    settings, turns = len(sweep.grid.settings()), sweep.benchmark.turns
    done = len(turns) - len(sweep.benchmark.missing())
    return SweepProgress(done * settings, len(turns) * settings, "", tuple(sweep.cells()))
