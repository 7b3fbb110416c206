"""Any α: drafts kept by chance, so that every acceptance can be measured on this device. Layout and wiring."""

from typing import NamedTuple

import gradio as gr
from gradio.context import Context

from app.components.charts import charts
from app.components.notice import notice
from app.components.sheet import sheet
from app.controls import METHODS, choices
from app.experiments.spots import Measured
from app.handlers import Handlers
from app.lab.synthetic import ALPHAS, FEWEST_TOKENS, GAMMAS, MOST_REPEATS, MOST_TOKENS, Choices, Screen, Synthetic
from app.service import Service
from app.views import lab_synthetic as view
from app.views.notice import notice as said

LEAD = """<p class="sl-lab-lead">α is the chance that the target keeps a drafted token; it comes from the models and
the text, so a real run only shows you one α. Here you set it: the draft's tokens are made and scored as always, at
their real cost, and then each is kept with the chance α. So you can see which α would make drafting worth its time on
this device, and whether the formula tells the truth about it.</p>
<p class="sl-lab-label" role="note"><strong>Kept by chance.</strong> No model judges these drafts, so the text that
comes out is not the target's and is never shown. What is real is the time it took.</p>"""
TITLE = "Speedup for any α: measured points on predicted lines"
HINTS = {
    "method": "Whose costs: its drafts are made and paid for. N-gram lookup drafts only where the text repeats.",
    "alphas": "Chance that a drafted token is kept.",
    "gammas": "Tokens drafted in a round.",
    "tokens": "Of each run. Longer runs are steadier.",
    "repeats": "Of each point; the fastest one counts.",
}
NO_MODELS = "This page is shared and offers no experiments that need a model; run SpecLens on your own machine."
PRIVATE = {"show_progress": "hidden", "api_visibility": "private"}


class Asked(NamedTuple):
    pair: gr.Dropdown
    method: gr.Dropdown
    alphas: gr.CheckboxGroup
    gammas: gr.CheckboxGroup
    tokens: gr.Slider
    repeats: gr.Slider


def synthetic(service: Service) -> None:
    handlers = Synthetic(service)
    kept = gr.State(Measured())
    gr.HTML(LEAD, apply_default_css=False)
    asked = _controls(service, handlers)
    with gr.Row(elem_classes="sl-actions"):
        run = gr.Button("Run", variant="primary", elem_id="any-alpha-run", scale=3, min_width=140)
        stop = gr.Button("Stop", elem_id="any-alpha-stop", interactive=False, scale=1, min_width=90)
        restart = gr.Button("Start over", elem_id="any-alpha-restart", interactive=False, scale=1, min_width=110)
    told = notice("any-alpha-notice", "" if service.limits.lab_seconds else said("quiet", NO_MODELS))
    empty = Measured()
    drawn = charts(view.chart(empty), "any-alpha-charts", {view.CHART: TITLE})
    starts = sheet("any-alpha-thresholds", view.thresholds(empty))
    points = sheet("any-alpha-points", view.points(empty))
    with gr.Row(elem_classes="sl-files"):
        table = _download("Save the points (CSV)", "any-alpha-csv")
        whole = _download("Save everything (JSON)", "any-alpha-json")
    screen = Screen(told, run, stop, restart, drawn, starts, points, table, whole, kept)
    _wire(service, handlers, asked, screen)


def _controls(service: Service, handlers: Synthetic) -> Asked:
    offered = handlers.methods(service.pair)
    titles = {pair.name: pair.title for pair in service.pairs.values()}
    most = min(MOST_TOKENS, service.limits.new_tokens)
    with gr.Row(equal_height=True):
        pair = gr.Dropdown(
            choices(titles), value=service.pair, label="Models", info="The target, and what drafts for it.",
            elem_id="any-alpha-pair", scale=3, min_width=220,
        )  # fmt: skip
        method = gr.Dropdown(
            choices(METHODS, offered), value=offered[0], label="Method", info=HINTS["method"],
            elem_id="any-alpha-method", scale=3, min_width=220,
        )  # fmt: skip
    with gr.Row(equal_height=True):
        alphas = gr.CheckboxGroup(
            [(f"{alpha:g}", alpha) for alpha in ALPHAS], value=[0.3, 0.5, 0.7, 0.9], label="Acceptance α",
            info=HINTS["alphas"], elem_id="any-alpha-alphas", scale=4, min_width=280,
        )  # fmt: skip
        gammas = gr.CheckboxGroup(
            [(str(gamma), gamma) for gamma in GAMMAS], value=[2, 4], label="Draft lengths γ", info=HINTS["gammas"],
            elem_id="any-alpha-gammas", scale=2, min_width=220,
        )  # fmt: skip
    with gr.Row(equal_height=True):
        tokens = gr.Slider(
            min(FEWEST_TOKENS, most), most, min(48, most), step=1, label="Tokens of a run", info=HINTS["tokens"],
            elem_id="any-alpha-tokens", min_width=220,
        )  # fmt: skip
        repeats = gr.Slider(
            1, MOST_REPEATS, 1, step=1, label="Repeats", info=HINTS["repeats"], elem_id="any-alpha-repeats",
            min_width=220,
        )  # fmt: skip
    return Asked(pair, method, alphas, gammas, tokens, repeats)


def _wire(service: Service, handlers: Synthetic, asked: Asked, screen: Screen) -> None:
    # Our own line decides who is next, so that a visitor can be told their place; all who may wait in it get in here.
    queued = {"concurrency_limit": 2 * service.limits.queue + 2, "concurrency_id": "any-alpha"}
    screen.run.click(handlers.run, [*asked, screen.kept], list(screen), **queued, **PRIVATE)
    # Beside the queue: a Stop that waits behind the run it is to stop would be no Stop.
    screen.stop.click(handlers.stop, queue=False, **PRIVATE)
    screen.restart.click(handlers.restart, None, list(screen), queue=False, **PRIVATE)
    follows = list(Choices(asked.method, screen.notice))
    Context.block.select(Handlers(service).offered, None, asked.pair, queue=False, **PRIVATE)
    asked.pair.change(handlers.chosen, [asked.pair, asked.method], follows, queue=False, **PRIVATE)


def _download(label: str, name: str) -> gr.DownloadButton:
    return gr.DownloadButton(label, interactive=False, elem_id=name, min_width=140)
