"""Lays out the theory, curves under sliders in the browser, and measures points at an acceptance set by hand."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import gradio as gr

from app.form import METHOD_LABELS, choices
from app.jobs.visitor import Session
from app.lab.experiment import Measurement, PageState, define_outputs
from app.lab.form import Field, boxes, dropdown, pair_field, slider
from app.lab.layout import Layout
from app.lab.own_curve import lay_out_curve, show_given
from app.lab.theory import exits, view
from app.lab.theory.server_form import lay_out_server
from app.lab.theory.work import PROMPT, PointPlan, PointSet, TheoryPoints
from app.playground.pair_handlers import PairHandlers
from app.playground.trace_files import safe_letters
from app.ui.charts import charts
from app.ui.widgets import QUIET
from app.views.notice import notice
from engine.config import RunConfig, method_of
from engine.trace.trace import Trace, load
from lessons.schema import TRACES

LEAD = """<p class="sl-lab-lead">Move a slider. A round drafts γ tokens and has the target score them all at once. Each
is accepted with the chance α, until the first rejection. Drafting costs c a token; scoring W tokens costs v(W). Both
are counted in plain steps: the time the target takes to write one token by itself. These four say whether drafting
pays.</p>"""
MEASURE = """<h3 class="sl-theory-measure">Is it true on this machine?</h3>
<p class="sl-lab-lead">A real run only shows you one α, which its models and its text decide. Here you set α by hand.
Drafts are made and scored at their real cost; then each is accepted with the chance α. The points appear on the curves
above.</p>
<p class="sl-lab-label" role="note"><strong>Accepted by chance.</strong> No model judges these drafts, so the text is
not the target's and is never shown. The time it took is real.</p>"""
ALPHAS = {alpha: f"{alpha:g}" for alpha in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)}
GAMMAS = {gamma: f"{gamma}" for gamma in (1, 2, 4, 8)}


@cache
def _recorded_chain() -> Trace:
    return load(TRACES / "rewrite_ngram.json")


class Theory(Measurement):
    NAME = "theory"
    Outputs = define_outputs("curves", "break_even", "points")
    RECORDED = "theory.json"
    view = view
    FILES = (("csv", "Save the points (CSV)"), ("json", "Save everything (JSON)"))
    RUN = "Measure these points here"
    REMAINS = "The points so far stay: measure again to go on with the rest."
    AFTER_RELOAD = "to measure them again"
    PREFERRED = ("eagle-chain", "lm", "ngram")  # a draft at every place first, because it shows every cost

    def form(self) -> list[list[Field]]:
        methods, limit = self.drafting_methods(self.service.offer.pair), min(192, self.service.limits.new_tokens)
        known = choices(METHOD_LABELS, methods)
        return [
            [pair_field(self.service, scale=3),
             dropdown("method", "Method",
                      "The method whose draft cost is used. N-gram lookup drafts only where the text repeats.",
                      methods[0], known, scale=3, min_width=220)],
            [boxes("alphas", "Acceptance α", "The chance that a draft is accepted.", [0.3, 0.5, 0.7, 0.9], ALPHAS,
                   "Tick at least one α to measure at.", scale=4, min_width=280),
             boxes("gammas", "Draft lengths γ", "Tokens drafted in a round.", [2, 4], GAMMAS,
                   "Tick at least one draft length γ.",
                   scale=2, min_width=220)],
            [slider("tokens", "Tokens of a run", "Longer runs are steadier.", min(48, limit), min(16, limit), limit,
                    min_width=220),
             slider("repeats", "Repeats", "How often each point is measured. More repeats give narrower intervals.", 3,
                    1, 5, min_width=220)],
        ]  # fmt: skip

    def lay_out(self, page: Layout) -> None:
        page.html(LEAD)
        page.show("curves", "theory", "curves")
        curve = lay_out_curve("theory-own-curve")
        curve.given(show_given, None, curve, **QUIET)
        page.html(MEASURE)
        with gr.Row(elem_classes="sl-actions"):
            page.run_and_stop()
            restart = page.over_button(name="restart")
        with page.fold("models, α and draft lengths"):
            page.form()
        page.notices()
        page.show("break_even")
        page.show("points")
        page.files()
        lay_out_server(page.session, page.tabs, curve)
        charts(exits.recorded_exits(), "theory-exits", exits.EXITS)
        page.wire(restart, inputs=[page.session, *page.widgets.values()])
        page.connect(page.outputs["points"].again, "noise")
        restart.click(self.clear, [page.session, page.state], [*page.streamed, *page.saved, restart], **QUIET)
        pair, method = page.widgets["pair"], page.widgets["method"]
        pair.change(self.select_pair, [pair, method], [method, page.outputs["notice"]], **QUIET)
        page.tabs[0].select(PairHandlers(self.service).list_pairs, None, pair, **QUIET)
        for tab in page.tabs:  # the visitor may have run something since this page was last open
            tab.select(self.curves, [page.session, page.state], page.outputs["curves"], **QUIET)

    # ── the form ──

    def drafting_methods(self, pair: str) -> list[str]:
        """Returns the methods that draft chains, because the curves pay one step for each draft."""
        return [method for method in super().drafting_methods(pair) if method_of(method).drafts_one_by_one]

    def select_pair(self, pair: str, method: str) -> list:
        """Lists the pair's methods, and says why it cannot run here."""
        methods = self.drafting_methods(pair)
        value = method if method in methods else methods[0]
        return [gr.update(choices=choices(METHOD_LABELS, methods), value=value), self.pair_notice(pair)]

    def lists(self, form: Mapping[str, Any]) -> dict[str, Any]:
        return {"method": self.select_pair(form["pair"], form["method"])[0]}

    def parse(self, values: Sequence) -> tuple[RunConfig, PointPlan]:
        form = self.read(values)
        config = RunConfig(PROMPT, form["pair"], form["method"], 1, max_new_tokens=form["tokens"], trace=False)
        return config, PointPlan(form["alphas"], form["gammas"], form["repeats"])

    # ── points ──

    def known_result(self, state: PageState, config: RunConfig, plan: PointPlan) -> PointSet:
        settings, measured = (config.pair, config.method, config.max_new_tokens), state.result
        is_same = measured is not None and settings == (measured.pair, measured.method, measured.tokens)
        return measured if is_same else PointSet(*settings)

    def is_known(self, result: PointSet, plan: PointPlan) -> bool:
        return not plan.missing(result.points)

    def open_points(self, engine, config: RunConfig, plan: PointPlan, again: bool, measured: PointSet) -> TheoryPoints:
        return TheoryPoints(engine, config, plan, measured)

    def clear(self, session: Session, state: PageState) -> list:
        """Forgets every point, and shows those that are recorded; the controls stay. Returns all outputs, then the
        files and the button."""
        state.result = None
        words, drawn = notice("quiet", "Cleared. Press Measure to start again."), self.curves(session, state)
        return [*self.opening()._replace(notice=words, curves=drawn), *self.links([]), gr.update(interactive=False)]

    # ── on the page ──

    def curves(self, session: Session, state: PageState) -> str:
        """Returns the curves of the visitor's run, and of the points on the page."""
        return self._curves(session, self.on_page(state))

    def _curves(self, session: Session, measured: PointSet, gammas: Sequence[int] = ()) -> str:
        """Returns the curves' value, which shows a recorded run until the visitor has one."""
        is_own = session.trace is not None and bool(session.trace.rounds)
        run, baseline = (session.trace, session.baseline) if is_own else (_recorded_chain(), None)
        return view.curves(run, baseline, is_own, measured, gammas)

    def draw(self, result: PointSet, values: Sequence = ()) -> Any:
        session, ticked = (values[0], self.by_name(values)["gammas"] or ()) if values else (Session(), ())
        curves = self._curves(session, result, [gamma for gamma in GAMMAS if gamma in ticked])
        return self.Outputs(curves=curves, **view.tables(result))

    def finding(self, result: PointSet, is_new: bool) -> str:
        before = "" if is_new else "All of this had been measured. Start over measures it again. "
        is_faster = any(point.measured.tone == "faster" for point in result.points.values())
        return notice("good" if is_faster else "quiet", before + view.verdict(result))

    def files(self, result: PointSet) -> Mapping[str, str]:
        name = f"speclens-any-alpha-{safe_letters(result.pair)}-{safe_letters(result.method)}"
        csv, json = view.files(result, self.where())
        return {f"{name}.csv": csv, f"{name}.json": json}
