"""Feeds the theory's curves: the visitor's last run, and points measured here at an acceptance set by hand."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import gradio as gr

from app.form import METHOD_LABELS, choices
from app.jobs.visitor import Session
from app.lab.controls import whole_number
from app.lab.experiment import Measurement, PageState, define_outputs
from app.lab.theory import view
from app.lab.theory.request import PointPlan, PointSet
from app.lab.theory.work import PROMPT, TheoryPoints
from app.playground.trace_files import safe_letters
from app.views.notice import notice
from engine.config import RunConfig, method_of
from engine.errors import BadInput
from engine.trace.trace import Trace, load
from lessons.schema import TRACES

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
GAMMAS = (1, 2, 4, 8)
FEWEST_TOKENS, MOST_TOKENS, MOST_REPEATS = 16, 192, 5


def _curves(session: Session, measured: PointSet, gammas: Sequence[int] = ()) -> str:
    """Returns the curves' value, which shows a recorded run until the visitor has one."""
    if session.trace is not None and session.trace.rounds:
        return view.curves(session.trace, session.baseline, True, measured, gammas)
    return view.curves(_recorded_chain(), None, False, measured, gammas)


@cache
def _recorded_chain() -> Trace:
    return load(TRACES / "rewrite_ngram.json")


class TheoryHandlers(Measurement):
    Outputs = define_outputs("curves", "break_even", "points")
    RECORDED = "theory.json"
    read_saved = staticmethod(view.from_json)
    RUN = "Measure these points here"
    REMAINS = "The points so far stay: measure again to go on with the rest."
    AFTER_RELOAD = "to measure them again"
    PREFERRED = ("eagle-chain", "lm", "ngram")  # a draft at every place first, because it shows every cost

    def drafting_methods(self, pair: str) -> list[str]:
        """Returns the methods that draft chains, because the curves pay one step for each draft."""
        return [method for method in super().drafting_methods(pair) if method_of(method).drafts_one_by_one]

    def select_pair(self, pair: str, method: str) -> list:
        """Lists the pair's methods, and says why it cannot run here."""
        methods = self.drafting_methods(pair)
        value = method if method in methods else methods[0]
        return [gr.update(choices=choices(METHOD_LABELS, methods), value=value), self.pair_notice(pair)]

    def refill(self, values: Sequence) -> list:
        form, (methods, _) = super().refill(values), self.select_pair(*values[:2])
        return [form[0], methods, *form[2:]]

    def files(self, result: PointSet) -> Mapping[str, str]:
        name = f"speclens-any-alpha-{safe_letters(result.pair)}-{safe_letters(result.method)}"
        where = self.where()
        return {f"{name}.csv": view.to_csv(result, where), f"{name}.json": view.to_json(result, where)}

    def parse(self, values) -> tuple[RunConfig, PointPlan]:
        """``values``: the session, then as parse_form takes them."""
        return parse_form(*values[1:])

    def known_result(self, state: PageState, config: RunConfig, plan: PointPlan) -> PointSet:
        settings = config.pair, config.method, config.max_new_tokens
        measured = state.result
        is_same = measured is not None and settings == (measured.pair, measured.method, measured.tokens)
        return measured if is_same else PointSet(*settings)

    def is_known(self, result: PointSet, plan: PointPlan) -> bool:
        return not [*plan.missing(result.points)]

    def open_points(
        self, latest: Callable[[], PointSet], config: RunConfig, plan: PointPlan
    ) -> Callable[[Any, bool], TheoryPoints]:
        return lambda engine, again: TheoryPoints(engine, config, plan, latest())

    def verdict(self, result: PointSet) -> str:
        return view.summary(result)

    def doubts(self, result: PointSet) -> str:
        return view.doubts_about(result)

    def curves(self, session: Session, state: PageState) -> str:
        """Returns the curves of the visitor's run, and of the points on the page."""
        return _curves(session, self.on_page(state))

    def draw(self, result: PointSet, values: Sequence) -> Any:
        session, gammas = (values[0], values[4]) if values else (Session(), ())
        return self.Outputs(
            curves=_curves(session, result, sorted(map(int, gammas))),
            break_even=view.break_even_table(result),
            points=view.points_table(result),
        )

    def finding(self, result: PointSet, is_new: bool) -> str:
        before = "" if is_new else "All of this had been measured. Start over measures it again. "
        is_faster = any(point.measured.tone == "faster" for point in result.points.values())
        return notice("good" if is_faster else "quiet", before + view.summary(result))

    def clear(self, session: Session, state: PageState) -> list:
        """Forgets every point, and shows those that are recorded; the controls stay. Returns all outputs, then the
        files and the button."""
        state.result = None
        words, drawn = notice("quiet", "Cleared. Press Measure to start again."), self.curves(session, state)
        return [*self.opening()._replace(notice=words, curves=drawn), *self._links([]), gr.update(interactive=False)]


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
