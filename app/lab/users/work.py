"""Measures many users at once. A unit of work is one cell: all texts, for one number of users, with one method.

Finished cells are lines of a file that is named after the settings, so an experiment that was stopped, by this visitor
or another, goes on from there (see engine.tools.bench.users).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.lab.work_units import Points, tidy
from engine.tools.bench.prompts import SHIPPED, Prompt, after_long_texts, read_prompts, spread
from engine.tools.bench.users_results import UsersRow
from engine.trace.costs import CostModel

SHORT, LONG = CONTEXTS = ("short", "long")
LONG_TEXT = 3_000  # characters of other prompts before each one


@dataclass(frozen=True)
class UsersPlan:
    """``contexts``: some of CONTEXTS; ``gamma``: for each method but auto, which chooses its own."""

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
        """Returns one of each kind in turn; no draft was trained on them."""
        prompts = spread(read_prompts(SHIPPED), self.texts)
        return after_long_texts(prompts, LONG_TEXT) if context == LONG else prompts


@dataclass(frozen=True)
class UsersResult:
    """A visitor's latest experiment: ``rows`` of each context, and the costs they are predicted from."""

    pair: str
    plan: UsersPlan
    rows: Mapping[str, tuple[UsersRow, ...]] = field(default_factory=dict)
    costs: Mapping[str, CostModel] = field(default_factory=dict)
    is_complete: bool = False

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    @property
    def part_shown(self) -> str:
        """The context to show: the first of a complete result, and before that the one being measured."""
        return self.contexts[0 if self.is_complete else -1]

    @property
    def contexts(self) -> list[str]:
        """The contexts that have rows."""
        return [name for name in self.plan.contexts if self.rows.get(name)]


class UsersPoints(Points):
    """The cells of each context. A cell is all texts, for one number of users, with one method."""

    def __init__(self, engine, pair: str, plan: UsersPlan, again: bool):
        from engine.files import cache_root
        from engine.tools.bench.users import ManyUsers, UsersSettings

        settings = UsersSettings(
            plan.users, plan.methods, plan.tokens, repeats=plan.repeats, gamma=plan.gamma, prompts_first=True
        )
        self.pair, self.plan, self.experiments = pair, plan, {}
        for context in plan.contexts:
            self.experiments[context] = ManyUsers(engine, settings, plan.prompts(context), cache_root() / "lab", again)
            tidy(self.experiments[context].file.path)

    def missing(self) -> Sequence:
        """Returns the cells to measure, each after its ManyUsers."""
        return [(many, cell) for many in self.experiments.values() for cell in many.missing()]

    def warm(self, cancelled) -> None:
        self.missing()[0][0].warm(cancelled)

    def forget_noise(self) -> None:
        for many in self.experiments.values():
            many.forget_noise()

    def measure(self, point, cancelled) -> Iterator[tuple[str, float]]:
        many, cell = point
        return many.reports(cell, cancelled)

    def size(self) -> tuple[int, int]:
        cells = sum(len(many.cells) for many in self.experiments.values())
        return cells - len(self.missing()), cells

    def work_left(self, share: float = 0.0) -> float:
        each = [many.expected_steps(cell) for many, cell in self.missing()]
        return sum(each) - share * sum(each[:1])

    def result(self) -> UsersResult:
        rows = {context: tuple(many.rows()) for context, many in self.experiments.items()}
        costs = next(iter(self.experiments.values())).costs() if any(rows.values()) else {}
        return UsersResult(self.pair, self.plan, rows, costs, not self.missing())
