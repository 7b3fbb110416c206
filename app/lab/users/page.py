"""Measures many users on the page: the form as a plan, and the charts as cells come in."""

import re
from collections.abc import Sequence

from app.lab.experiment import InParts, define_outputs, largest_method
from app.lab.form import Field, boxes, methods_field, pair_field, slider, text, whole_number
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
    view = view
    result_type = UsersResult
    RUN = "Measure many users"
    WHAT, LEAD, SHOWN = "numbers of users, methods and prompts", LEAD, "Shown"
    REMAINS = "The points so far are kept: press the button again to go on."

    def form(self) -> list[list[Field]]:
        methods, limit = self.drafting_methods(self.service.offer.pair), min(256, self.service.limits.new_tokens)
        first = [*usual(name for name in methods if name != AUTO), AUTO]
        return [
            [pair_field(self.service),
             text("numbers", "Users at once", f"Numbers from 1 to {MOST_USERS}, with commas.", "1, 2, 4, 8, 16",
                  max_lines=1, min_width=220)],
            [methods_field(methods, first, "Compared with plain decoding."),
             Field("gamma", "Draft length γ", "The same for every method; auto chooses its own.", 2, "radio",
                   choices=GAMMAS, layout={"min_width": 260})],
            [boxes("contexts", "Prompts", "A long text makes every user's cache large.", [SHORT], view.CONTEXTS,
                   "Choose at least one kind of prompts.", min_width=260),
             slider("tokens", "Max tokens", "The longest that an answer may get.", min(32, limit), 8, limit, 8,
                    min_width=160),
             slider("repeats", "Repeats", "How often each point is measured. More repeats give narrower intervals.", 3,
                    1, 5, min_width=160)],
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
