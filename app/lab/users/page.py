"""Measures many users on the page: the form as a plan, and the charts as cells come in."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.lab.experiment import InParts, define_outputs, largest_method
from app.lab.form import Field, methods_field, pair_field, whole_number
from app.lab.users import view
from app.lab.users.work import SHORT, UsersPlan, UsersPoints, UsersResult
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, quantity
from engine.tools.bench.answer import usual

LEAD = """<p class="sl-lab-lead">Users who ask at once share each pass of the target. So do drafts: both want the
arithmetic that one user leaves idle. Measure from how many users on drafting no longer pays. Stop at any time: the
points so far are kept.</p>"""
GAMMAS = {gamma: f"{gamma}" for gamma in (1, 2, 3, 4, 6, AUTO)}
MOST_USERS, MOST_NUMBERS = 32, 8


class Users(InParts):
    NAME = "users"
    Outputs = define_outputs("charts", "table")
    RECORDED = "users.json"
    read_saved = staticmethod(view.from_json)
    result_type = UsersResult
    RUN = "Measure many users"
    WHAT, LEAD, CHARTS, SHOWN = "numbers of users, methods and prompts", LEAD, view.CHARTS, "Shown"
    REMAINS = "The points so far are kept: press the button again to go on."

    def form(self) -> list[list[Field]]:
        methods, limit = self.drafting_methods(self.service.offer.pair), min(256, self.service.limits.new_tokens)
        first = [*usual(name for name in methods if name != AUTO), AUTO]
        wide, narrow = {"min_width": 260}, {"min_width": 160}
        return [
            [pair_field(self.service),
             Field("numbers", "Users at once", f"Numbers from 1 to {MOST_USERS}, with commas.", "1, 2, 4, 8, 16",
                   "text", layout={"max_lines": 1, "min_width": 220})],
            [methods_field(methods, first, "Compared with plain decoding."),
             Field("gamma", "Draft length γ", "The same for every method; auto chooses its own.", 2, "radio",
                   choices=GAMMAS, layout=wide)],
            [Field("contexts", "Prompts", "A long text makes every user's cache large.", [SHORT], "boxes",
                   choices=view.CONTEXTS, one="kind of prompts", layout=wide),
             Field("tokens", "Max tokens", "The longest that an answer may get.", min(32, limit), "slider", 8, limit,
                   8, layout=narrow),
             Field("repeats", "Repeats", "How often each point is measured. More repeats give narrower intervals.", 3,
                   "slider", 1, 5, 1, layout=narrow)],
        ]  # fmt: skip

    def drafting_methods(self, pair: str) -> list[str]:
        return [*super().drafting_methods(pair), AUTO]

    def parse(self, values: Sequence) -> tuple[RunConfig, UsersPlan]:
        form = self.read(values)
        pair, numbers = form.pop("pair"), re.findall(r"[^,;\s]+", form.pop("numbers"))
        users = {whole_number(number, "Users at once", 1, MOST_USERS) for number in numbers}
        if not users:
            raise BadInput("Give at least one number of users, such as 1, 2, 4.")
        if len(users) > MOST_NUMBERS:
            raise BadInput(f"Give at most {MOST_NUMBERS} numbers of users.")
        plan = UsersPlan(tuple(sorted(users)), **form)
        method = largest_method(plan.methods)
        return RunConfig("Many users", pair=pair, method=method, max_new_tokens=plan.tokens), plan

    def extent(self, pair: str, plan: UsersPlan) -> str:
        points, answers = quantity(plan.cells, "point"), quantity(plan.texts, "answer")
        return f"{points}, each of {answers} with {quantity(plan.tokens, 'token')}."

    def open_points(self, engine, config: RunConfig, plan: UsersPlan, again: bool, measured) -> UsersPoints:
        return UsersPoints(engine, config.pair, plan, again)

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
        return view.files(result, self.where())
