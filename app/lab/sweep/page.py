"""Sweeps settings on the page: the form as a plan, the charts as turns come in, and configurations of other engines."""

from collections.abc import Sequence
from typing import Any

from app.lab.experiment import InParts, define_outputs, largest_method
from app.lab.form import Field, boxes, methods_field, pair_field, slider, text
from app.lab.sweep import view
from app.lab.sweep.work import SweepPlan, SweepPoints, SweepResult, prompts
from engine.config import AUTO, METHODS, RunConfig
from engine.errors import BadInput, quantity

LEAD = """<p class="sl-lab-lead">Each turn runs one prompt without drafting, then once with every setting. The speedup
is their ratio, so both share whatever else the machine is doing. Stop keeps every finished turn, and the same
sweep goes on from there.</p>"""
GAMMAS = {gamma: f"{gamma}" for gamma in (1, 2, 3, 4, 6, 8, AUTO)}
TEMPERATURES = {temperature: f"{temperature:g}" for temperature in (0.0, 0.5, 1.0)}


class Sweep(InParts):
    NAME = "sweep"
    Outputs = define_outputs("charts", "table", "recipes")
    RECORDED = "sweep.json"
    view = view
    result_type = SweepResult
    RUN = "Run the sweep"
    NOUN = "Run"
    WHAT, LEAD = "methods, draft lengths and texts", LEAD
    SHOWN, RECIPES = "Shown at temperature", "The best setting, in other engines"
    REMAINS = "Every finished turn of all settings is kept, and the same sweep goes on from there."
    FIRST = "every setting had run once"

    def form(self) -> list[list[Field]]:
        methods, limit = self.drafting_methods(self.service.offer.pair), self.service.limits.new_tokens
        # Leaves out the int4 copy (not every device has it), methods that share weights, and those rarely fastest.
        known = {name: METHODS[name] for name in methods}
        usual = [name for name, each in known.items() if each.competes and each.reads != "copy" and not each.shares]
        kinds = {name: name for name in prompts()}
        return [
            [pair_field(self.service),
             methods_field(methods, usual, "What guesses ahead.", "Choose at least one method.")],
            [boxes("gammas", "Draft lengths γ", "Tokens guessed in a round; auto chooses again for each round.",
                   [1, 2, 4, AUTO], GAMMAS, "Choose at least one draft length.", min_width=260),
             boxes("temperatures", "Temperatures", "0 is greedy: the likeliest token.", [0.0], TEMPERATURES,
                   "Choose at least one temperature.", min_width=260)],
            [boxes("kinds", "Kinds of text", "Prompts that no draft was trained on.", ["chat", "code", "rewrite"],
                   kinds)],
            [slider("each", "Texts of each kind", "More texts, narrower intervals.", 1, 1, 8, min_width=160),
             slider("repeats", "Repeats", "Repeats of the whole sweep, each with a different seed.", 3, 1, 5,
                    min_width=160),
             slider("tokens", "Max tokens", "The longest that a run may get.", min(48, limit), 8, min(256, limit), 8,
                    min_width=160)],
            [text("own", "Also a text of your own",
                  "It counts as a kind of its own. Leave it empty to use only the kinds above.", lines=2,
                  max_lines=8)],
        ]  # fmt: skip

    def parse(self, values: Sequence) -> tuple[RunConfig, SweepPlan]:
        form = self.read(values)
        pair, kinds = form.pop("pair"), form.pop("kinds")
        if not kinds and not form["own"].strip():
            raise BadInput("Choose at least one kind of text, or give one of your own.")
        plan = SweepPlan(categories=kinds, **form)
        # The most that the sweep asks of this server: the visitor's own text, and the length of a run.
        method, prompt = largest_method(plan.methods), plan.own.strip() or "A sweep"
        return RunConfig(prompt, pair=pair, method=method, max_new_tokens=plan.tokens), plan

    def extent(self, pair: str, plan: SweepPlan) -> str:
        turns, runs = quantity(plan.turns, "turn"), quantity(plan.runs, "run")
        return f"{turns}, {runs} of up to {quantity(plan.tokens, 'token')}."

    def open_points(self, engine, config: RunConfig, plan: SweepPlan, again: bool, measured) -> SweepPoints:
        return SweepPoints(engine, config.pair, plan, again)

    def draw_part(self, result: SweepResult, part: float) -> Any:
        recipes = view.recipes(result, part, self.service.engine.models)
        return super().draw_part(result, part)._replace(recipes=recipes)
