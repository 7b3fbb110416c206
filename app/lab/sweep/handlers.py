"""Sweeps settings on the page: the form as a plan, the charts as turns come in, and the files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import gradio as gr

from app.lab.experiment import Measurement, PageState, counted, whole_number
from app.lab.sweep import view
from app.lab.sweep.work import SweepPlan, SweepPoints, SweepResult, prompts
from app.ui.widgets import SKIP, outputs
from app.views.engine_recipes import Choice, nothing, production
from app.views.notice import notice
from app.views.table import empty
from engine.bench.metrics import ALL
from engine.bench.sample import BASELINE
from engine.bench.sweep_results import leaders, to_csv
from engine.config import AUTO, RunConfig
from engine.errors import BadInput

GAMMAS = ("1", "2", "3", "4", "6", "8", AUTO)
TEMPERATURES = (0.0, 0.5, 1.0)
MOST_EACH, MOST_REPEATS = 8, 5
Outputs = outputs("notice", "charts", "table")


class SweepHandlers(Measurement):
    Outputs = Outputs
    RUN = "Run the sweep"
    NOUN = "Run"
    REMAINS = "The turns so far are kept: the same sweep goes on from here."

    def parse(self, values) -> tuple[RunConfig, SweepPlan]:
        return parse_form(*values)

    def known(self, state: PageState, config: RunConfig, plan: SweepPlan) -> SweepResult:
        self.check_methods(config.pair, plan.methods)
        return SweepResult(config.pair, plan)

    def open_points(self, state: PageState, config: RunConfig, plan: SweepPlan) -> Callable[[Any, bool], SweepPoints]:
        return lambda engine, afresh: SweepPoints(engine, config.pair, plan, afresh)

    def drawn(self, result: SweepResult, values: Sequence) -> Outputs:
        return self._drawn(result)

    def finding(self, result: SweepResult, is_new: bool) -> str:
        return notice("good", view.advice(result.cells, result.plan.temperatures[0]))

    def extent(self, plan: SweepPlan) -> str:
        turns, runs = counted(plan.turns, "turn"), counted(plan.runs, "run")
        return f"{turns}, {runs} of up to {plan.tokens} tokens."

    @staticmethod
    def _drawn(result: SweepResult, temperature: float | None = None) -> Outputs:
        if not result:
            return Outputs(charts=view.blank(), table=empty())
        at = result.plan.temperatures[0] if temperature is None else temperature
        return Outputs(charts=view.drawn(result.cells, at), table=view.table(result.cells, at))

    def end(self, state: PageState) -> list:
        """The buttons and files, the temperatures to choose from, and recipes for the fastest setting."""
        ends, result = super().end(state), state.result
        if not result or ends[0] is SKIP:
            return [*ends, SKIP, SKIP]
        temperatures = result.plan.temperatures
        options = [(f"{temperature:g}", temperature) for temperature in temperatures]
        shown = gr.update(choices=options, value=temperatures[0], visible=len(temperatures) > 1)
        return [*ends, shown, self._recipes(result, temperatures[0])]

    def select_temperature(self, state: PageState, temperature: float) -> list:
        """The same sweep at another of its temperatures: the outputs, then the recipes."""
        result = state.result
        if not result or temperature not in result.plan.temperatures:
            return [*Outputs(), SKIP]
        words = notice("good", view.advice(result.cells, temperature))
        return [*self._drawn(result, temperature)._replace(notice=words), self._recipes(result, temperature)]

    def _recipes(self, result: SweepResult, temperature: float) -> str:
        """The fastest setting for other engines; none where plain decoding may be as fast."""
        first = leaders(result.cells)[temperature, ALL]
        if not first or any(cell.method == BASELINE for cell in first):
            words = (
                "No setting was certainly faster than plain decoding on these texts, so there is nothing to configure."
            )
            return nothing(words)
        fastest = first[0]
        models = self.service.offer.models(result.pair, fastest.method)
        choice = Choice(
            fastest.method, fastest.gamma, models.target, models.draft, models.gguf, temperature == 0,
            translated=models.translated,
        )  # fmt: skip
        whence = "the fastest above" if len(first) == 1 else "as fast as any above"
        speed = f"Measured {fastest.measured.words}, one request at a time."
        return production(choice, whence, speed)

    def files(self, result: SweepResult) -> Mapping[str, str]:
        settings = {"pair": result.pair} | asdict(result.plan)
        return {
            "speclens-sweep.csv": to_csv(result.cells),
            "speclens-sweep.json": view.as_json(result.cells, settings),
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
