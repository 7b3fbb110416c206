"""Measures many users at once, one cell a unit of work: all texts, by so many users, with one method.

Finished cells are lines of a file that is named after the settings, so an experiment that was stopped, by this visitor
or another, goes on from there (see engine.bench.users).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.jobs.runs import Work
from app.jobs.updates import Report
from app.lab.work_units import WarmUpOnce, tidy
from engine.bench.prompts import Prompt, after_long_texts, read_prompts, spread
from engine.bench.users_results import UsersRow
from engine.files import ASSETS
from engine.trace.events import CostModel

PROMPTS = ASSETS / "data" / "prompts.jsonl"
SHORT, LONG = CONTEXTS = ("short", "long")
LONG_TEXT = 3_000  # characters of other prompts before each one
SECONDS_BETWEEN_REPORTS = 0.5


@dataclass(frozen=True)
class UsersPlan:
    """``contexts``: of CONTEXTS; ``gamma``: of each method but auto, which chooses its own."""

    users: tuple[int, ...]
    methods: tuple[str, ...]
    gamma: int | str
    contexts: tuple[str, ...]
    tokens: int = 32
    repeats: int = 1

    @property
    def texts(self) -> int:
        """Each number of users answers as many, the same ones."""
        return max(self.users)

    @property
    def cells(self) -> int:
        """Plain decoding is one more for each number of users."""
        return len(self.contexts) * len(self.users) * (len(self.methods) + 1) * self.repeats

    def prompts(self, context: str) -> list[Prompt]:
        """One of each kind in turn; no draft was trained on them."""
        prompts = spread(read_prompts(PROMPTS), self.texts)
        return after_long_texts(prompts, LONG_TEXT) if context == LONG else prompts


@dataclass(frozen=True)
class UsersProgress:
    """``done`` of ``of`` cells; ``doing``: the one under way with the ``share`` of it that is done, "" between two.
    ``rows`` of each context, None: as before. ``costs`` of each method but auto."""

    done: int
    of: int
    doing: str = ""
    share: float = 0.0
    rows: Mapping[str, tuple[UsersRow, ...]] | None = None
    costs: Mapping[str, CostModel] | None = None

    @property
    def is_complete(self) -> bool:
        return self.done >= self.of


def work_units(plan: UsersPlan, latest: Callable[[], UsersProgress | None], afresh: bool = False) -> Iterator[Work]:
    """The cells measured before, then cell after cell until none is missing. ``latest``: the report that came in last.
    ``afresh`` forgets the cells measured before."""
    yield _look(plan, afresh)
    warm_up = WarmUpOnce()
    while not latest().is_complete:
        yield _cell(plan, warm_up)


def _look(plan: UsersPlan, afresh: bool) -> Work:
    def work(engine, cancelled):
        yield Report(_progress(_open(engine, plan, afresh)))

    return work


def _cell(plan: UsersPlan, warm_up: WarmUpOnce) -> Work:
    def work(engine, cancelled):
        experiments = _open(engine, plan)
        before, due = _progress(experiments), 0.0
        context = next((name for name, each in experiments.items() if each.missing()), None)
        if context:
            many = experiments[context]
            if warm_up.is_due(engine):
                yield Report(UsersProgress(before.done, before.of, "warming up"))
            warm_up(engine, lambda: many.warm(cancelled))
            cell = many.missing()[0]
            for share in many.steps(cell, cancelled):
                if time.monotonic() >= due:
                    due = time.monotonic() + SECONDS_BETWEEN_REPORTS
                    doing = f"{cell.users} at once, {cell.method}"
                    yield Report(UsersProgress(before.done, before.of, doing, share))
        if not cancelled():
            yield Report(_progress(experiments))

    return work


def _open(engine, plan: UsersPlan, afresh: bool = False) -> dict:
    """A ManyUsers for each context."""
    from engine.bench.users import ManyUsers, Settings
    from engine.files import cache_root

    settings = Settings(
        plan.users, plan.methods, plan.tokens, repeats=plan.repeats, gamma=plan.gamma, prompts_first=True
    )
    experiments = {}
    for context in plan.contexts:
        prompts = plan.prompts(context)
        experiments[context] = ManyUsers(engine, settings, prompts, cache_root() / "lab", afresh)
        tidy(experiments[context].file.path)
    return experiments


def _progress(experiments: Mapping) -> UsersProgress:
    cells = sum(len(many.cells) for many in experiments.values())
    missing = sum(len(many.missing()) for many in experiments.values())
    rows = {context: tuple(many.rows()) for context, many in experiments.items()}
    costs = next(iter(experiments.values())).costs() if any(rows.values()) else {}
    return UsersProgress(cells - missing, cells, rows=rows, costs=costs)
