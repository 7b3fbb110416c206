"""Runs the experiment with many users on the page: the form as a plan, the charts as cells come in, and the files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from app.jobs.runs import Request
from app.lab.experiment import PageState, Resumable, counted, whole_number
from app.lab.users import view
from app.lab.users.work import CONTEXTS, UsersPlan, UsersProgress, work_units
from app.ui.widgets import SKIP, outputs
from app.views.notice import notice
from app.views.table import empty
from engine.bench.users_results import UsersRow
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError
from engine.trace.events import CostModel, Progress

GAMMAS = ("1", "2", "3", "4", "6", AUTO)
MOST_USERS, MOST_NUMBERS, MOST_REPEATS = 32, 8, 5
Outputs = outputs("notice", "charts", "table")


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
    def latest(self) -> str:
        """The last context with rows."""
        return next((name for name in reversed(self.plan.contexts) if self.rows.get(name)), self.plan.contexts[0])


class UsersHandlers(Resumable):
    Outputs = Outputs
    RUN = "Measure many users"
    REMAINS = "The points so far are kept: press the button again to go on."

    def _run(self, request: Request, state: PageState, values, afresh: bool) -> Iterator[Outputs]:
        pair, plan = parse_form(*values)
        state.result = UsersResult(pair, plan)
        yield Outputs(notice("progress", "Starting"))
        self.check_methods(pair, plan.methods)
        yield from self._measure(request, state, afresh)
        result = state.result
        if result.is_complete:
            yield self._drawn(result, plan.contexts[0])._replace(notice=_finding(result, plan.contexts[0]))
        else:
            stopped = notice("quiet", f"Stopped. {self.REMAINS if result else ''}".strip())
            yield self._drawn(result, result.latest)._replace(notice=stopped)

    def _measure(self, request: Request, state: PageState, afresh: bool) -> Iterator[Outputs]:
        pair, plan = state.result.pair, state.result.plan
        latest: UsersProgress | None = None
        units = work_units(plan, lambda: latest, afresh)
        for report in self.reports(request, units, _config(pair, plan)):
            if isinstance(report, Progress):
                yield Outputs(notice("progress", report.message, report.fraction))
                continue
            latest = report
            if latest.rows is None:
                yield Outputs(_progress(latest))
            else:
                state.result = UsersResult(pair, plan, latest.rows, latest.costs, latest.is_complete)
                yield self._drawn(state.result, state.result.latest)._replace(notice=_progress(latest))

    @staticmethod
    def _drawn(result: UsersResult, context: str) -> Outputs:
        if not result:
            return Outputs(charts=view.blank(), table=empty())
        drawn = view.drawn(result.rows, context, result.plan.methods, result.costs)
        return Outputs(charts=drawn, table=view.table(result.rows[context], result.plan.methods, context))

    def end(self, state: PageState) -> list:
        """The buttons and files, and the contexts to choose from."""
        ends, result = super().end(state), state.result
        if not result or ends[0] is SKIP:
            return [*ends, SKIP]
        contexts = [name for name in result.plan.contexts if result.rows.get(name)]
        options = [(view.CONTEXTS[name], name) for name in contexts]
        at = contexts[0] if result.is_complete else contexts[-1]
        return [*ends, gr.update(choices=options, value=at, visible=len(contexts) > 1)]

    def select_context(self, state: PageState, context: str) -> list:
        """The same measurement with prompts of another length."""
        result = state.result
        if not result or not result.rows.get(context):
            return [*Outputs()]
        return [*self._drawn(result, context)._replace(notice=_finding(result, context))]

    def files(self, result: UsersResult) -> Mapping[str, str]:
        return {
            "speclens-many-users.csv": view.to_csv(result.rows),
            "speclens-many-users.json": view.to_json(result.pair, result.plan, result.rows, result.costs),
        }

    def drafting_methods(self, pair: str) -> list[str]:
        return [*super().drafting_methods(pair), AUTO]

    def select_pair(self, pair: str, chosen: list[str]) -> Any:
        """The methods of a pair; those that it shares with the last one keep their tick."""
        methods = self.drafting_methods(pair)
        return gr.update(choices=methods, value=[method for method in chosen if method in methods])

    def size(self, *values) -> str:
        """How much work it will be."""
        try:
            _, plan = parse_form(*values)
        except EngineError as error:
            return notice("quiet", str(error))
        points, texts = counted(plan.cells, "point"), counted(plan.texts, "answer")
        return notice("quiet", f"{points}, each of {texts} with {plan.tokens} tokens.")


def parse_form(pair, methods, users, gamma, contexts, tokens, repeats) -> tuple[str, UsersPlan]:
    """``users``: numbers with commas. Raises BadInput that names the control."""
    numbers = [part for part in re.split(r"[,;\s]+", str(users or "")) if part]
    if not numbers:
        raise BadInput("Give at least one number of users, such as 1, 2, 4.")
    chosen = tuple(name for name in CONTEXTS if name in (contexts or ()))
    if not chosen:
        raise BadInput("Choose at least one kind of prompts.")
    parsed = {whole_number(number, "Users at once", 1, MOST_USERS) for number in numbers}
    if len(parsed) > MOST_NUMBERS:
        raise BadInput(f"Give at most {MOST_NUMBERS} numbers of users.")
    return pair, UsersPlan(
        tuple(sorted(parsed)),
        tuple(method for method in methods or () if method != "none"),
        gamma if gamma == AUTO else whole_number(gamma, "Draft length", 1, 32),
        chosen,
        whole_number(tokens, "Max tokens", 1, 8_192),
        whole_number(repeats, "Repeats", 1, MOST_REPEATS),
    )


def _config(pair: str, plan: UsersPlan) -> RunConfig:
    """The most that it takes of this server, for its limits."""
    method = AUTO if len(plan.methods) > 1 else next(iter(plan.methods), "none")  # auto brings every draft of the pair
    return RunConfig("Many users", pair=pair, method=method, max_new_tokens=plan.tokens)


def _finding(result: UsersResult, context: str) -> str:
    return notice("good", view.finding(result.rows[context], result.plan.methods))


def _progress(progress: UsersProgress) -> str:
    doing = f": {progress.doing}" if progress.doing else ""
    nth = min(progress.done + 1, progress.of)
    return notice("progress", f"Point {nth} of {progress.of}{doing}", (progress.done + progress.share) / progress.of)
