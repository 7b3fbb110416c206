"""Runs the experiment with many users on the page: the form as a plan, the charts as cells come in, and the files."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from app.lab.experiment import Measurement, PageState, counted, whole_number
from app.lab.users import view
from app.lab.users.work import CONTEXTS, UsersPlan, UsersPoints, UsersResult
from app.ui.widgets import SKIP, outputs
from app.views.notice import notice
from app.views.table import empty
from engine.config import AUTO, RunConfig
from engine.errors import BadInput

GAMMAS = ("1", "2", "3", "4", "6", AUTO)
MOST_USERS, MOST_NUMBERS, MOST_REPEATS = 32, 8, 5
Outputs = outputs("notice", "charts", "table")


class UsersHandlers(Measurement):
    Outputs = Outputs
    RUN = "Measure many users"
    REMAINS = "The points so far are kept: press the button again to go on."

    def parse(self, values) -> tuple[RunConfig, UsersPlan]:
        return parse_form(*values)

    def known(self, state: PageState, config: RunConfig, plan: UsersPlan) -> UsersResult:
        self.check_methods(config.pair, plan.methods)
        return UsersResult(config.pair, plan)

    def open_points(self, state: PageState, config: RunConfig, plan: UsersPlan) -> Callable[[Any, bool], UsersPoints]:
        return lambda engine, afresh: UsersPoints(engine, config.pair, plan, afresh)

    def drawn(self, result: UsersResult, values: Sequence) -> Outputs:
        """A complete result from its first context on, and before that the context that is being measured."""
        contexts = result.contexts or result.plan.contexts
        return self._drawn(result, contexts[0] if result.is_complete else contexts[-1])

    def finding(self, result: UsersResult, is_new: bool) -> str:
        return _finding(result, result.plan.contexts[0])

    def extent(self, plan: UsersPlan) -> str:
        return f"{counted(plan.cells, 'point')}, each of {counted(plan.texts, 'answer')} with {plan.tokens} tokens."

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
        contexts = result.contexts
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


def parse_form(pair, methods, users, gamma, contexts, tokens, repeats) -> tuple[RunConfig, UsersPlan]:
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
    plan = UsersPlan(
        tuple(sorted(parsed)),
        tuple(method for method in methods or () if method != "none"),
        gamma if gamma == AUTO else whole_number(gamma, "Draft length", 1, 32),
        chosen,
        whole_number(tokens, "Max tokens", 1, 8_192),
        whole_number(repeats, "Repeats", 1, MOST_REPEATS),
    )
    method = AUTO if len(plan.methods) > 1 else next(iter(plan.methods), "none")  # auto brings every draft of the pair
    return RunConfig("Many users", pair=pair, method=method, max_new_tokens=plan.tokens), plan


def _finding(result: UsersResult, context: str) -> str:
    return notice("good", view.finding(result.rows[context], result.plan.methods))
