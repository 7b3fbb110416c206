"""Measures an answer: a sweep for one user, then the settings worth it with more users.

Finished turns are kept in files, which an equal question of another visitor finds again.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from app.lab.answer.plan import (
    GAMMAS,
    HERE,
    TOKENS_OF_A_LOAD,
    AnswerPlan,
    AnswerResult,
    Load,
    of_whole_answers,
    shortlist,
)
from app.lab.work_units import tidy
from app.views.figures import method_title, setting_title
from engine.bench.metrics import ALL
from engine.bench.prompts import Prompt
from engine.bench.sample import BASELINE

SECONDS_BETWEEN_REPORTS = 0.5
_CELLS = 5  # of a number of users until the sweep says which settings are worth it: two methods, two lengths, plain


class AnswerPoints:
    """Turns of the sweep, then cells of many users."""

    def __init__(self, engine, pair: str, plan: AnswerPlan, afresh: bool):
        from engine.bench.sweep import Grid, Sweep
        from engine.files import cache_root

        self.engine, self.pair, self.plan, self.folder = engine, pair, plan, cache_root() / "lab"
        self.prompts = [Prompt(text, category) for category, text in plan.texts]
        repeats = plan.repeats if plan.place == HERE else 1  # of a prediction only the tokens count
        grid = Grid(plan.methods, GAMMAS, (0.0,), plan.tokens, repeats)
        self._many: list | None = None
        self.sweep = Sweep(engine, grid, self.prompts, folder=self.folder)
        if afresh:
            self._open_many(afresh)
            self.sweep = Sweep(engine, grid, self.prompts, folder=self.folder, afresh=True)
        tidy(self.sweep.benchmark.file.path)

    def _sweep_missing(self) -> Sequence:
        return self.sweep.benchmark.missing()

    @property
    def many(self) -> list[tuple[int, Any]]:
        """(γ, a ManyUsers) for each length on the shortlist, once the sweep has one."""
        if self._many is None and not self._sweep_missing():
            self._many = self._open_many()
        return self._many or []

    def _open_many(self, afresh: bool = False) -> list[tuple[int, Any]]:
        """With fewer texts than users some ask the same."""
        from engine.bench.users import ManyUsers, Settings

        if not (users := self.plan.loads):
            return []
        each = [self.prompts[i % len(self.prompts)] for i in range(max(users))]
        best, lengths = shortlist(self.sweep.cells()), []
        for gamma in sorted({gamma for _, gamma in best}):
            methods = tuple(method for method, length in best if length == gamma)
            settings = Settings(
                users, methods, TOKENS_OF_A_LOAD, repeats=self.plan.repeats, gamma=gamma, prompts_first=True
            )
            lengths.append((gamma, ManyUsers(self.engine, settings, each, self.folder, afresh)))
            tidy(lengths[-1][1].file.path)
        return lengths

    def missing(self) -> Sequence:
        """Turns of the sweep, or (a ManyUsers, its cell)."""
        return self._sweep_missing() or [(many, cell) for _, many in self.many for cell in many.missing()]

    def forget_noise(self) -> None:
        self.sweep.forget_noise()
        for _, many in self.many:
            many.forget_noise()

    def warm(self, cancelled) -> None:
        self.sweep.warm(cancelled)

    def measure(self, point, cancelled) -> Iterator[tuple[str, float]]:
        if isinstance(point, tuple):
            yield from self._measure_users(*point, cancelled)
            return
        for number, system in enumerate(self.sweep.benchmark.steps(point, cancelled)):
            yield f"one user, {setting_title(system.name, system.setting)}", number

    @staticmethod
    def _measure_users(many, cell, cancelled) -> Iterator[tuple[str, float]]:
        due = 0.0
        for share in many.steps(cell, cancelled):
            if time.monotonic() >= due:
                due = time.monotonic() + SECONDS_BETWEEN_REPORTS
                yield f"{cell.users} users at once, {method_title(cell.method)}", share

    def size(self) -> tuple[int, int]:
        """In runs, and cells of many users."""
        settings, turns = len(self.sweep.grid.settings()), len(self.sweep.benchmark.turns)
        cells = sum(len(many.cells) for _, many in self.many)
        missing = sum(len(many.missing()) for _, many in self.many)
        expected = cells or len(self.plan.loads) * _CELLS * self.plan.repeats * bool(self._sweep_missing())
        done = (turns - len(self._sweep_missing())) * settings + cells - missing
        return done, turns * settings + expected

    def result(self) -> AnswerResult:
        cells = tuple(self.sweep.cells())
        tau = {(cell.method, cell.gamma): cell.tau for cell in cells if cell.category == ALL}
        loads = tuple(
            Load(row.users, setting, of_whole_answers(row.measured, row.tau, tau[setting]), row.busy)
            for gamma, many in self.many
            for row in many.rows()
            if row.measured and (setting := (row.method, gamma)) in tau and row.method != BASELINE
        )
        methods = dict.fromkeys(cell.method for cell in cells if cell.category == ALL)
        costs = {method: self.engine.costs(method) for method in methods} if cells else {}
        return AnswerResult(self.pair, self.plan, cells, loads, costs, not self.missing())
