"""Sweeps settings on the page: the form as a plan, the charts as turns come in, and the files."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app.lab.controls import whole_number
from app.lab.experiment import define_outputs
from app.lab.in_parts import InParts
from app.lab.sweep import view
from app.lab.sweep.work import SweepPlan, SweepPoints, SweepResult, prompts
from app.views.engine_recipes import Choice, nothing, production
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, quantity
from engine.tools.bench.metrics import ALL
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.sweep_results import leaders, to_csv

GAMMAS = ("1", "2", "3", "4", "6", "8", AUTO)
TEMPERATURES = (0.0, 0.5, 1.0)
MOST_EACH, MOST_REPEATS = 8, 5


class SweepHandlers(InParts):
    Outputs = define_outputs("charts", "table", "recipes")
    RECORDED = "sweep.json"
    read_saved = staticmethod(view.from_json)
    result_type = SweepResult
    points_type = SweepPoints
    RUN = "Run the sweep"
    NOUN = "Run"
    REMAINS = "Every finished turn of all settings is kept, and the same sweep goes on from there."
    FIRST = "every setting had run once"

    def parse(self, values) -> tuple[RunConfig, SweepPlan]:
        return parse_form(*values)

    def extent(self, pair: str, plan: SweepPlan) -> str:
        turns, runs = quantity(plan.turns, "turn"), quantity(plan.runs, "run")
        return f"{turns}, {runs} of up to {quantity(plan.tokens, 'token')}."

    def doubts(self, result: SweepResult) -> str:
        return view.doubts_about(result.cells)

    def parts(self, result: SweepResult) -> list[tuple[str, float]]:
        return [(f"{temperature:g}", temperature) for temperature in result.plan.temperatures]

    def draw_part(self, result: SweepResult, part: float) -> Any:
        recipes = self._recipes(result, part)
        return self.Outputs(
            charts=view.draw_charts(result.cells, part), table=view.table(result.cells, part), recipes=recipes
        )

    def advice(self, result: SweepResult, part: float) -> str:
        return view.advice(result.cells, part)

    def _recipes(self, result: SweepResult, temperature: float) -> str:
        """Returns the fastest setting of a fixed length, because other engines have no γ = auto; none where plain
        decoding may be as fast."""
        first = leaders(result.cells).get((temperature, ALL))
        if not first or any(cell.method == BASELINE for cell in first):
            words = (
                "No setting was certainly faster than plain decoding on these texts, so there is nothing to configure."
            )
            return nothing(words)
        cells = [cell for cell in result.cells if (cell.temperature, cell.category) == (temperature, ALL)]
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
        speed = f"Measured {fastest.measured.words}, one request at a time."
        return production(choice, origin, speed)

    def files(self, result: SweepResult) -> Mapping[str, str]:
        where = {"pair": result.pair} | self.where()
        return {
            "speclens-sweep.csv": to_csv(result.cells, where),
            "speclens-sweep.json": view.as_json(result.cells, where | asdict(result.plan)),
        }


def parse_form(
    pair, methods, gammas, temperatures, categories, each, own, repeats, tokens
) -> tuple[RunConfig, SweepPlan]:  # fmt: skip
    """Raises BadInput that names the control."""
    for what, values in (("method", methods), ("draft length", gammas), ("temperature", temperatures)):
        if not values:
            raise BadInput(f"Choose at least one {what}.")
    if not categories and not (own or "").strip():
        raise BadInput("Choose at least one kind of text, or give one of your own.")
    plan = SweepPlan(
        tuple(methods),
        tuple(gamma if gamma == AUTO else whole_number(gamma, "Draft length", 1, 32) for gamma in gammas),
        tuple(float(temperature) for temperature in temperatures),
        tuple(name for name in prompts() if name in categories),
        whole_number(each, "Texts of each kind", 1, MOST_EACH),
        own or "",
        whole_number(repeats, "Repeats", 1, MOST_REPEATS),
        whole_number(tokens, "Max tokens", 1, 8_192),
    )
    method = AUTO if len(plan.methods) > 1 else plan.methods[0]  # auto brings every draft of the pair
    # The most that the sweep asks of this server: the visitor's own text, and the length of a run.
    config = RunConfig(plan.own.strip() or "A sweep", pair=pair, method=method, max_new_tokens=plan.tokens)
    return config, plan
