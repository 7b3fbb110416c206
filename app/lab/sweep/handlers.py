"""Sweeps settings on the page: the form as a plan, the charts as turns come in, and the files."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr

from app.jobs.runs import Request
from app.lab.experiment import PageState, Resumable, counted, whole_number
from app.lab.sweep import view
from app.lab.sweep.work import SweepPlan, SweepProgress, prompts, work_units
from app.ui.widgets import SKIP, outputs
from app.views.engine_recipes import Choice, production
from app.views.notice import notice
from app.views.table import empty
from engine.bench.metrics import ALL
from engine.bench.sweep_results import Cell, best, to_csv
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError
from engine.trace.events import Progress

GAMMAS = ("1", "2", "3", "4", "6", "8", AUTO)
TEMPERATURES = (0.0, 0.5, 1.0)
MOST_EACH, MOST_REPEATS = 8, 5
SECONDS_BETWEEN_NOTICES = 0.5
Outputs = outputs("notice", "charts", "table")


@dataclass(frozen=True)
class SweepResult:
    """A visitor's latest sweep. Without cells it is empty."""

    pair: str
    plan: SweepPlan
    cells: tuple[Cell, ...] = ()
    is_complete: bool = False

    def __len__(self) -> int:
        return len(self.cells)


class SweepHandlers(Resumable):
    Outputs = Outputs
    RUN = "Run the sweep"
    REMAINS = "The turns so far are kept: the same sweep goes on from here."

    def _run(self, request: Request, state: PageState, values, afresh: bool) -> Iterator[Outputs]:
        pair, plan = parse_form(*values)
        state.result = SweepResult(pair, plan)
        yield Outputs(notice("progress", "Starting"))
        self.check_methods(pair, plan.methods)
        yield from self._measure(request, state, _config(pair, plan), afresh)
        if state.result.is_complete:
            words = notice("good", view.advice(state.result.cells, plan.temperatures[0]))
        else:
            words = notice("quiet", f"Stopped. {self.REMAINS if state.result else ''}".strip())
        yield self._drawn(state.result)._replace(notice=words)

    def _measure(self, request: Request, state: PageState, config: RunConfig, afresh: bool) -> Iterator[Outputs]:
        pair, plan = state.result.pair, state.result.plan
        latest, eta, due = None, Eta(), 0.0
        units = work_units(plan, lambda: latest, afresh)
        for report in self.reports(request, units, config):
            if isinstance(report, Progress):
                yield Outputs(notice("progress", report.message, report.fraction))
                continue
            latest = report
            eta.add(latest)
            if latest.cells is not None:
                state.result = SweepResult(pair, plan, latest.cells, latest.is_complete)
                yield self._drawn(state.result)._replace(notice=_progress(latest, eta))
            elif time.monotonic() >= due:
                yield Outputs(_progress(latest, eta))
                due = time.monotonic() + SECONDS_BETWEEN_NOTICES

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
        """The fastest setting, for other engines."""
        fastest = best(result.cells)[temperature, ALL]
        models = self.service.offer.models(result.pair, fastest.method)
        choice = Choice(
            fastest.method, fastest.gamma, models.target, models.draft, models.gguf, temperature == 0,
            translated=models.translated,
        )  # fmt: skip
        return production(choice, whence="the fastest above")

    def files(self, result: SweepResult) -> Mapping[str, str]:
        settings = {"pair": result.pair} | asdict(result.plan)
        return {
            "speclens-sweep.csv": to_csv(result.cells),
            "speclens-sweep.json": view.as_json(result.cells, settings),
        }

    def select_pair(self, pair: str, chosen: list[str]) -> Any:
        """The methods of a pair; those that it shares with the last one keep their tick."""
        methods = self.drafting_methods(pair)
        return gr.update(choices=methods, value=[method for method in chosen if method in methods] or methods[:1])

    def size(self, *values) -> str:
        """How much work the sweep will be."""
        try:
            _, plan = parse_form(*values)
        except EngineError as error:
            return notice("quiet", str(error))
        turns, runs = counted(plan.turns, "turn"), counted(plan.runs, "run")
        return notice("quiet", f"{turns}, {runs} of up to {plan.tokens} tokens.")


class Eta:
    """Estimates the time left from the runs so far, without warm-up."""

    def __init__(self):
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] = (0, 0.0)

    def add(self, progress: SweepProgress) -> None:
        if progress.cells is None and progress.doing != "warming up":
            self._last = (progress.done, time.monotonic())
            self._first = self._first or self._last

    def seconds(self, progress: SweepProgress) -> float | None:
        """None until two runs have been seen."""
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        each = (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
        return each * (progress.of - progress.done)


def parse_form(
    pair, methods, gammas, temperatures, categories, each, own, repeats, tokens
) -> tuple[str, SweepPlan]:  # fmt: skip
    """Raises BadInput that names the control."""
    for what, values in (("method", methods), ("draft length", gammas), ("temperature", temperatures)):
        if not values:
            raise BadInput(f"Choose at least one {what}.")
    if not categories and not (own or "").strip():
        raise BadInput("Choose at least one kind of text, or give one of your own.")
    return pair, SweepPlan(
        tuple(methods),
        tuple(gamma if gamma == AUTO else whole_number(gamma, "Draft length", 1, 32) for gamma in gammas),
        tuple(float(temperature) for temperature in temperatures),
        tuple(name for name in prompts() if name in categories),
        whole_number(each, "Texts of each kind", 1, MOST_EACH),
        own or "",
        whole_number(repeats, "Repeats", 1, MOST_REPEATS),
        whole_number(tokens, "Max tokens", 1, 8_192),
    )


def _config(pair: str, plan: SweepPlan) -> RunConfig:
    """The most that the sweep asks of this server, for its limits: the visitor's own text, and the length of a run."""
    method = AUTO if len(plan.methods) > 1 else plan.methods[0]  # auto brings every draft of the pair
    return RunConfig(plan.own.strip() or "A sweep", pair=pair, method=method, max_new_tokens=plan.tokens)


def _progress(progress: SweepProgress, eta: Eta) -> str:
    seconds = eta.seconds(progress)
    left = "" if seconds is None else f", about {_duration(seconds)} left"
    doing = f": {progress.doing}" if progress.doing else ""
    nth = min(progress.done + 1, progress.of)
    return notice("progress", f"Run {nth} of {progress.of}{doing}{left}", progress.done / progress.of)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1, seconds):.0f} s"
