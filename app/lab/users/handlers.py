"""Runs the experiment with many users on the page: the form as a plan, the charts as cells come in, and the files."""

import re
from collections.abc import Mapping
from typing import Any

from app.lab.controls import whole_number
from app.lab.experiment import define_outputs
from app.lab.in_parts import InParts
from app.lab.users import view
from app.lab.users.work import CONTEXTS, UsersPlan, UsersPoints, UsersResult
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, quantity

GAMMAS = ("1", "2", "3", "4", "6", AUTO)
MOST_USERS, MOST_NUMBERS, MOST_REPEATS = 32, 8, 5


class UsersHandlers(InParts):
    Outputs = define_outputs("charts", "table")
    RECORDED = "users.json"
    read_saved = staticmethod(view.from_json)
    result_type = UsersResult
    points_type = UsersPoints
    RUN = "Measure many users"
    REMAINS = "The points so far are kept: press the button again to go on."

    def parse(self, values) -> tuple[RunConfig, UsersPlan]:
        return parse_form(*values)

    def extent(self, pair: str, plan: UsersPlan) -> str:
        points, answers = quantity(plan.cells, "point"), quantity(plan.texts, "answer")
        return f"{points}, each of {answers} with {quantity(plan.tokens, 'token')}."

    def verdict(self, result: UsersResult) -> str:
        return f"Answers of {quantity(result.plan.tokens, 'token')}, γ = {result.plan.gamma}. {super().verdict(result)}"

    def doubts(self, result: UsersResult) -> str:
        return view.doubts_about(result.rows)

    def parts(self, result: UsersResult) -> list[tuple[str, str]]:
        return [(view.CONTEXTS[name], name) for name in result.contexts]

    def part_shown(self, result: UsersResult) -> str:
        """Names the context to show: the first of a complete result, and before that the one being measured."""
        return result.contexts[0 if result.is_complete else -1]

    def draw_part(self, result: UsersResult, part: str) -> Any:
        drawn = view.draw_charts(result.rows, part, result.plan.methods, result.costs)
        return self.Outputs(charts=drawn, table=view.table(result.rows[part], result.plan.methods, part))

    def advice(self, result: UsersResult, part: str) -> str:
        return view.finding(result.rows[part], result.plan.methods)

    def files(self, result: UsersResult) -> Mapping[str, str]:
        where = self.where()
        return {
            "speclens-many-users.csv": view.to_csv(result.rows, {"pair": result.pair} | where),
            "speclens-many-users.json": view.to_json(result, where),
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
