"""Feeds the theory's curves: the visitor's last run, and points measured here at an acceptance set by hand."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import gradio as gr

from app.form import METHOD_LABELS, choices
from app.jobs.runs import Request
from app.jobs.updates import SECONDS_BETWEEN_UPDATES
from app.jobs.visitor import Session
from app.lab.experiment import Experiment, PageState, whole_number
from app.lab.theory import view
from app.lab.theory.request import AlphaGamma, DeviceCosts, Point, PointPlan, PointSet, PointStarted
from app.lab.theory.work import PROMPT, work_units
from app.playground.startup_run import recorded
from app.playground.trace_files import safe_letters
from app.ui.widgets import SKIP, outputs
from app.views.notice import notice
from engine.config import RunConfig, drafts_one_by_one
from engine.errors import BadInput
from engine.trace.events import Progress

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
GAMMAS = (1, 2, 4, 8)
FEWEST_TOKENS, MOST_TOKENS, MOST_REPEATS = 16, 192, 5
_recorded = cache(recorded)


def curves(session: Session, state: PageState, gammas: Sequence[int] = ()) -> str:
    """The curves' value; the recorded run is in it until the visitor has a run of their own."""
    measured = PointSet() if state.result is None else state.result
    if session.trace is not None and session.trace.rounds:
        return view.curves(session.trace, session.baseline, True, measured, gammas)
    return view.curves(*_recorded(), False, measured, gammas)


Outputs = outputs("notice", "curves", "break_even", "points")


class TheoryHandlers(Experiment):
    Outputs = Outputs
    RUN = "Measure these points here"
    PREFERRED = ("eagle-chain", "lm", "ngram")  # a draft at every place first, because it shows every cost

    def drafting_methods(self, pair: str) -> list[str]:
        """Those that draft chains, because the curves pay one step for each draft."""
        return [method for method in super().drafting_methods(pair) if drafts_one_by_one(method)]

    def select_pair(self, pair: str, method: str) -> list:
        """The pair's methods, and why it cannot run here."""
        methods = self.drafting_methods(pair)
        value = method if method in methods else methods[0]
        return [gr.update(choices=choices(METHOD_LABELS, methods), value=value), self.pair_notice(pair)]

    def files(self, result: PointSet) -> Mapping[str, str]:
        name = f"speclens-any-alpha-{safe_letters(result.pair)}-{safe_letters(result.method)}"
        return {f"{name}.csv": view.to_csv(result), f"{name}.json": view.to_json(result)}

    def run(self, request: gr.Request, state: PageState, session: Session, *values) -> Iterator[Outputs]:
        """Measures the points that ``state`` lacks. ``values``: as parse_form takes them."""
        yield from self.stream(request, state, lambda mine: self._run(mine, state, session, values))

    def _run(self, request: Request, state: PageState, session: Session, values: Sequence) -> Iterator[Outputs]:
        config, plan = parse_form(*values)
        settings = config.pair, config.method, config.max_new_tokens
        measured = PointSet() if state.result is None else state.result
        if settings != (measured.pair, measured.method, measured.tokens):
            measured = PointSet(*settings)
        state.result, missing = measured, plan.left(measured.points)
        yield self._drawn(session, state, plan)._replace(notice=notice("progress", "Starting"))
        if missing:
            yield from self._measure(request, state, session, config, plan)
        yield self._drawn(session, state, plan)._replace(notice=_conclusion(state.result, plan, missing))

    def _measure(
        self, request: Request, state: PageState, session: Session, config: RunConfig, plan: PointPlan
    ) -> Iterator[Outputs]:
        """Draws a point together with the notice that comes right after it: one update per point."""
        points: dict[AlphaGamma, Point] = dict(state.result.points)
        limiter, drawn = RateLimiter(), Outputs()
        for report in self.reports(request, work_units(config, plan, points), config):
            match report:
                case DeviceCosts():
                    state.result = replace(state.result, costs=report)
                case Point():
                    points[report.place] = report
                    state.result = replace(state.result, points=dict(points))
            if isinstance(report, DeviceCosts | Point):
                drawn = self._drawn(session, state, plan)
                continue
            limiter.wait()
            yield drawn._replace(notice=_progress(report, plan, points))
            drawn = Outputs()

    def _drawn(self, session: Session, state: PageState, plan: PointPlan) -> Outputs:
        measured = state.result
        return Outputs(
            curves=curves(session, state, plan.gammas),
            break_even=view.break_even_table(measured),
            points=view.points_table(measured),
        )

    def end(self, state: PageState) -> list:
        """Start over is offered once there are points."""
        ends = super().end(state)
        return [*ends, SKIP if ends[0] is SKIP else gr.update(interactive=bool(state.result))]

    def start_over(self, session: Session, state: PageState) -> list:
        """Forgets every point; the controls stay. Returns all outputs, then the files and the button."""
        state.result = None
        cleared = Outputs(
            notice("quiet", "Cleared. Measure to begin anew."),
            curves(session, state),
            view.break_even_table(PointSet()),
            view.points_table(PointSet()),
        )
        return [*cleared, *self._links([]), gr.update(interactive=False)]


class RateLimiter:
    """Waits until there may be another update; a tiny model makes points faster than a page can draw them."""

    def __init__(self):
        self._due = 0.0

    def wait(self) -> None:
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = time.monotonic() + SECONDS_BETWEEN_UPDATES


def parse_form(pair, method, alphas, gammas, tokens, repeats) -> tuple[RunConfig, PointPlan]:
    """Raises BadInput that names the control."""
    if not alphas:
        raise BadInput("Tick at least one α to measure at.")
    if not gammas:
        raise BadInput("Tick at least one draft length γ.")
    if not (set(alphas) <= set(ALPHAS) and set(gammas) <= set(GAMMAS)):
        raise BadInput("Choose α and γ among the boxes.")
    count = whole_number(repeats, "Repeats", 1, MOST_REPEATS)
    config = RunConfig(PROMPT, pair, method, 1, max_new_tokens=whole_number(tokens, "Tokens of a run"), trace=False)
    return config, PointPlan(tuple(sorted(map(float, alphas))), tuple(sorted(map(int, gammas))), count)


def _progress(report: PointStarted | Progress, plan: PointPlan, points: Mapping[AlphaGamma, Point]) -> str:
    if isinstance(report, Progress):
        return notice("progress", report.message, report.fraction)
    done = plan.turns - plan.left(points)
    again = f", repeat {report.repeat} of {plan.repeats}" if plan.repeats > 1 else ""
    words = f"Measuring {done + 1} of {plan.turns}: α = {report.alpha:g} with γ = {report.gamma}{again}"
    return notice("progress", f"{words}, beside plain decoding", done / plan.turns)


def _conclusion(measured: PointSet, plan: PointPlan, missing: int) -> str:
    """How it ended. ``missing``: turns that had to be measured."""
    if left := plan.left(measured.points):
        done = plan.turns - left
        return notice("quiet", f"Stopped: {done} of {plan.turns} measured. Measure again to go on with the rest.")
    before = "" if missing else "All of this had been measured: Start over measures it anew. "
    fastest = max(point.speedup for point in measured.ordered)
    return notice("good" if fastest > 1 else "slow", before + view.summary(measured))
