"""Lays out the theory: curves under sliders, drawn in the browser, and points measured here beside them."""

from functools import partial
from typing import Any

import gradio as gr

from app.form import METHOD_LABELS, choices
from app.jobs.service import Service
from app.lab.controls import enclosing_tabs, fold, pair_control
from app.lab.experiment import PageState
from app.lab.theory.exits import CHARTS, load_recorded
from app.lab.theory.handlers import ALPHAS, FEWEST_TOKENS, GAMMAS, MOST_REPEATS, MOST_TOKENS, TheoryHandlers
from app.lab.theory.server_form import server_form
from app.lab.wiring import Wiring
from app.playground.pair_handlers import PairHandlers
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice
from app.ui.widgets import QUIET, download

LEAD = """<p class="sl-lab-lead">Move a slider. A round drafts γ tokens and has the target score them all at once. Each
is accepted with the chance α, until the first rejection. Drafting costs c a token; scoring W tokens costs v(W). Both
are counted in plain steps: the time the target takes to write one token by itself. These four say whether drafting
pays.</p>"""
MEASURE = """<h3 class="sl-theory-measure">Is it true on this machine?</h3>
<p class="sl-lab-lead">A real run only shows you one α: that of its models and its text. Here you set α by hand. Drafts
are made and scored at their real cost; then each is accepted with the chance α. The points appear on the curves
above.</p>
<p class="sl-lab-label" role="note"><strong>Accepted by chance.</strong> No model judges these drafts, so the text is
not the target's and is never shown. The time it took is real.</p>"""


def theory(service: Service, session: gr.State) -> Wiring:
    handlers, state = TheoryHandlers(service), gr.State(PageState())
    opening = handlers.opening()
    gr.HTML(LEAD, apply_default_css=False)
    drawn = component("theory", opening.curves)
    gr.HTML(MEASURE, apply_default_css=False)
    with gr.Row(elem_classes="sl-actions"):
        run, stop = handlers.buttons("theory")
        restart = gr.Button("Start over", elem_id="theory-restart", interactive=False, scale=1, min_width=110)
    with fold("theory", "models, α and draft lengths"):
        pair, method, *rest = _controls(service, handlers)
    words = notice("theory-notice")
    mark = notice("theory-recorded", opening.mark)
    tables = (
        component("table", opening.break_even, "theory-break-even"), component("table", opening.points, "theory-points")
    )  # fmt: skip
    outputs = handlers.Outputs(words, drawn, *tables, mark)
    with gr.Row(elem_classes="sl-files"):
        files = download("Save the points (CSV)", "theory-csv"), download("Save everything (JSON)", "theory-json")
    tabs = enclosing_tabs()
    server_form(session, tabs)
    charts(load_recorded(), "theory-exits", CHARTS)
    inputs = [session, pair, method, *rest]
    wiring = Wiring(handlers, inputs, outputs, state, [run, stop, *files, restart])
    wiring.connect(run.click, handlers.run)
    wiring.connect(outputs.points.again, handlers.replace_noise)
    restart.click(handlers.clear, [session, state], [*outputs, *files, restart], **QUIET)
    pair.change(handlers.select_pair, [pair, method], [method, words], **QUIET)
    tabs[0].select(PairHandlers(service).list_pairs, None, pair, **QUIET)
    for tab in tabs:  # the visitor may have run something since this page was last open
        tab.select(handlers.curves, [session, state], drawn, **QUIET)
    return wiring


def _controls(service: Service, handlers: TheoryHandlers) -> list[Any]:
    """Lays out the controls, in the order of handlers.parse_form."""
    methods = handlers.drafting_methods(service.offer.pair)
    limit = min(MOST_TOKENS, service.limits.new_tokens)
    slider = partial(gr.Slider, step=1, min_width=220)
    with gr.Row(equal_height=True):
        pair = pair_control(service, "theory", scale=3)
        method = gr.Dropdown(
            choices(METHOD_LABELS, methods), value=methods[0], label="Method", elem_id="theory-method", scale=3,
            min_width=220,
            info="The method whose draft cost is used. N-gram lookup drafts only where the text repeats.",
        )  # fmt: skip
    with gr.Row(equal_height=True):
        alphas = gr.CheckboxGroup(
            [(f"{alpha:g}", alpha) for alpha in ALPHAS], value=[0.3, 0.5, 0.7, 0.9], label="Acceptance α",
            info="The chance that a draft is accepted.", elem_id="theory-alphas", scale=4, min_width=280,
        )  # fmt: skip
        gammas = gr.CheckboxGroup(
            [(str(gamma), gamma) for gamma in GAMMAS], value=[2, 4], label="Draft lengths γ",
            info="Tokens drafted in a round.", elem_id="theory-gammas", scale=2, min_width=220,
        )  # fmt: skip
    with gr.Row(equal_height=True):
        tokens = slider(min(FEWEST_TOKENS, limit), limit, min(48, limit), label="Tokens of a run",
                        info="Longer runs are steadier.", elem_id="theory-tokens")  # fmt: skip
        repeats = slider(1, MOST_REPEATS, 3, label="Repeats", elem_id="theory-repeats",
                         info="How often each point is measured. More repeats give narrower intervals.")  # fmt: skip
    return [pair, method, alphas, gammas, tokens, repeats]
