"""Sweeps settings on the page: the form as a plan, the charts as turns come in, and configurations of other engines."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.lab.experiment import InParts, define_outputs, largest_method
from app.lab.form import Field, methods_field, pair_field
from app.lab.sweep import view
from app.lab.sweep.work import SweepPlan, SweepPoints, SweepResult, prompts
from app.views.engine_recipes import Choice, nothing, production
from engine.config import AUTO, METHODS, RunConfig
from engine.errors import BadInput, quantity
from engine.tools.bench.metrics import ALL
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.sweep_results import leaders

LEAD = """<p class="sl-lab-lead">Each turn runs one prompt without drafting, then once with every setting. The speedup
is their ratio, so both share whatever else the machine is doing. Stop keeps every finished turn, and the same
sweep goes on from there.</p>"""
GAMMAS = {gamma: f"{gamma}" for gamma in (1, 2, 3, 4, 6, 8, AUTO)}
TEMPERATURES = {temperature: f"{temperature:g}" for temperature in (0.0, 0.5, 1.0)}


class Sweep(InParts):
    NAME = "sweep"
    Outputs = define_outputs("charts", "table", "recipes")
    RECORDED = "sweep.json"
    read_saved = staticmethod(view.from_json)
    result_type = SweepResult
    RUN = "Run the sweep"
    NOUN = "Run"
    WHAT, LEAD, CHARTS = "methods, draft lengths and texts", LEAD, view.CHARTS
    SHOWN, RECIPES = "Shown at temperature", "The best setting, in other engines"
    REMAINS = "Every finished turn of all settings is kept, and the same sweep goes on from there."
    FIRST = "every setting had run once"

    def form(self) -> list[list[Field]]:
        methods, limit = self.drafting_methods(self.service.offer.pair), self.service.limits.new_tokens
        # Leaves out the int4 copy (not every device has it), methods that share weights, and those rarely fastest.
        known = {name: METHODS[name] for name in methods}
        usual = [name for name, each in known.items() if each.competes and each.reads != "copy" and not each.shares]
        kinds = {name: name for name in prompts()}
        wide, narrow = {"min_width": 260}, {"min_width": 160}
        return [
            [pair_field(self.service), methods_field(methods, usual, "What guesses ahead.", "method")],
            [Field("gammas", "Draft lengths γ", "Tokens guessed in a round; auto chooses again for each round.",
                   [1, 2, 4, AUTO], "boxes", choices=GAMMAS, one="draft length", layout=wide),
             Field("temperatures", "Temperatures", "0 is greedy: the likeliest token.", [0.0], "boxes",
                   choices=TEMPERATURES, one="temperature", layout=wide)],
            [Field("kinds", "Kinds of text", "Prompts that no draft was trained on.", ["chat", "code", "rewrite"],
                   "boxes", choices=kinds)],
            [Field("each", "Texts of each kind", "More texts, narrower intervals.", 1, "slider", 1, 8, 1,
                   layout=narrow),
             Field("repeats", "Repeats", "Repeats of the whole sweep, each with a different seed.", 3, "slider", 1, 5,
                   1, layout=narrow),
             Field("tokens", "Max tokens", "The longest that a run may get.", min(48, limit), "slider", 8,
                   min(256, limit), 8, layout=narrow)],
            [Field("own", "Also a text of your own",
                   "It counts as a kind of its own. Leave it empty to use only the kinds above.", "", "text", lines=2,
                   layout={"max_lines": 8})],
        ]  # fmt: skip

    def parse(self, values: Sequence) -> tuple[RunConfig, SweepPlan]:
        form = self.read(values)
        pair, kinds = form.pop("pair"), form.pop("kinds")
        if not kinds and not form["own"].strip():
            raise BadInput("Choose at least one kind of text, or give one of your own.")
        plan = SweepPlan(categories=kinds, **form)
        # The most that the sweep asks of this server: the visitor's own text, and the length of a run.
        method, text = largest_method(plan.methods), plan.own.strip() or "A sweep"
        return RunConfig(text, pair=pair, method=method, max_new_tokens=plan.tokens), plan

    def extent(self, pair: str, plan: SweepPlan) -> str:
        turns, runs = quantity(plan.turns, "turn"), quantity(plan.runs, "run")
        return f"{turns}, {runs} of up to {quantity(plan.tokens, 'token')}."

    def open_points(self, engine, config: RunConfig, plan: SweepPlan, again: bool, measured) -> SweepPoints:
        return SweepPoints(engine, config.pair, plan, again)

    def doubts(self, result: SweepResult) -> str:
        return view.doubts_about(result.cells)

    def parts(self, result: SweepResult) -> list[tuple[str, float]]:
        return [(f"{temperature:g}", temperature) for temperature in result.plan.temperatures]

    def draw_part(self, result: SweepResult, part: float) -> Any:
        drawn = {"charts": view.draw_charts(result.cells, part), "table": view.table(result.cells, part)}
        return self.Outputs(**drawn, recipes=self._recipes(result, part))

    def advice(self, result: SweepResult, part: float) -> str:
        return view.advice(result.cells, part)

    def _recipes(self, result: SweepResult, temperature: float) -> str:
        """Returns the fastest setting of a fixed length, because other engines have no γ = auto; none where plain
        decoding may be as fast."""
        cells = [cell for cell in result.cells if (cell.temperature, cell.category) == (temperature, ALL)]
        first = leaders(cells).get((temperature, ALL))
        if not first or any(cell.method == BASELINE for cell in first):
            return nothing(
                "No setting was certainly faster than plain decoding on these texts, so there is nothing to configure."
            )
        fixed = leaders([cell for cell in cells if cell.gamma != AUTO])[temperature, ALL]
        if any(cell.method == BASELINE for cell in fixed):
            return nothing("Only γ = auto was certainly faster than plain decoding, and other engines do not have it.")
        fastest = fixed[0]
        models = self.service.engine.models(result.pair, fastest.method)
        choice = Choice.from_models(models, fastest.method, fastest.gamma, greedy=temperature == 0)
        origin = "the fastest above" if fixed == [fastest] else "one of the fastest above"
        if fastest not in first:
            origin += " whose length is fixed, because other engines have no γ = auto"
        if fixed != [fastest]:
            origin += " (these cannot be told apart)"
        return production(choice, origin, f"Measured {fastest.measured.words}, one request at a time.")

    def files(self, result: SweepResult) -> Mapping[str, str]:
        return view.files(result, {"pair": result.pair} | self.where())
