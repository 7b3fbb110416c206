"""A sweep, a turn at a time: one prompt at one temperature, plain decoding and every setting beside it.

What has been measured stands in a file that is named after the sweep, so a sweep that was stopped, by this visitor or
another, goes on where it was.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from app.races import Report
from app.service import Work
from engine.lab.cells import Cell

PROMPTS = Path(__file__).resolve().parents[2] / "assets" / "prompts.jsonl"
OWN = "your text"
MOST_FILES = 50


@dataclass(frozen=True)
class Plan:
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
        known = {name: texts[: self.each] for name, texts in prompts().items() if name in self.categories}
        found = [(name, texts[i]) for i in range(self.each) for name, texts in known.items() if i < len(texts)]
        return [(OWN, self.own), *found] if self.own.strip() else found

    @property
    def turns(self) -> int:
        return len(self.texts) * len(self.temperatures) * self.repeats

    @property
    def runs(self) -> int:
        """Plain decoding is one more in each turn."""
        return self.turns * (len(self.methods) * len(self.gammas) + 1)


@dataclass(frozen=True)
class Standing:
    """``done`` of ``of`` runs; ``doing``: the one under way, "" at the end of a turn. ``cells`` None: as before."""

    done: int
    of: int
    doing: str = ""
    cells: tuple[Cell, ...] | None = None

    @property
    def whole(self) -> bool:
        return self.done >= self.of


@lru_cache
def prompts() -> dict[str, list[str]]:
    """The shipped prompts by category, in file order; no draft was trained on them."""
    found: dict[str, list[str]] = {}
    for line in PROMPTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["category"], []).append(row["prompt"])
    return found


def pieces(plan: Plan, standing: Callable[[], Standing | None], afresh: bool = False) -> Iterator[Work]:
    """What was measured before, then turn after turn until nothing is missing. ``standing``: what came in last.
    ``afresh`` forgets what was measured before."""
    yield _look(plan, afresh)
    first = True
    while not standing().whole:
        yield _turn(plan, first)
        first = False


def _look(plan: Plan, afresh: bool) -> Work:
    def work(engine, cancelled):
        made = _opened(engine, plan, afresh)
        yield Report(_standing(made))

    return work


def _turn(plan: Plan, first: bool) -> Work:
    def work(engine, cancelled):
        made = _opened(engine, plan)
        missing = made.missing()
        settings = len(made.grid.settings())
        done, of = (len(made.order()) - len(missing)) * settings, len(made.order()) * settings
        if missing:
            if first:
                yield Report(Standing(done, of, "warming up"))
                made.warm(cancelled)
            for number, (method, gamma) in enumerate(made.steps(missing[0], cancelled)):
                how = "plain decoding" if gamma == 0 else f"{method}, γ = {gamma}"
                yield Report(Standing(done + number, of, f"{made.name(missing[0])}: {how}"))
        if not cancelled():
            yield Report(_standing(made))

    return work


def _opened(engine, plan: Plan, afresh: bool = False):
    from engine.bench import Prompt
    from engine.folders import cache_root
    from engine.lab.sweep import Grid, Sweep

    grid = Grid(plan.methods, plan.gammas, plan.temperatures, plan.tokens, plan.repeats)
    folder = cache_root() / "lab"
    made = Sweep(engine, grid, [Prompt(text, category) for category, text in plan.texts])
    made.keep_in(folder, afresh)
    _tidy(folder, keep=made.path)
    return made


def _tidy(folder: Path, keep: Path) -> None:
    """The oldest sweeps go, or a page open to many would fill its disk."""
    files = sorted(folder.glob("sweep-*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in files[:-MOST_FILES]:
        if path != keep:
            path.unlink(missing_ok=True)


def _standing(made) -> Standing:
    settings, order = len(made.grid.settings()), made.order()
    done = sum(turn in made.turns for turn in order)
    return Standing(done * settings, len(order) * settings, "", tuple(made.cells()))
