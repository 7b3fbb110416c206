"""Compare: two to four runs of one prompt, their rounds in columns. Layout and wiring."""

from dataclasses import replace

import gradio as gr
from gradio.components import Component

from app.components.charts import charts
from app.components.compare import compare as grid
from app.components.controls import control
from app.components.notice import notice
from app.components.sheet import sheet
from app.controls import METHODS, choices, described
from app.lab.compare import MOST, OWN, RUN, SHARED, Compare, Screen, beginning, count
from app.service import Service
from app.views import lab_compare as view
from engine.config import AUTO

LEAD = """<p class="sl-lab-lead">Every run writes an answer to the same prompt, one after the other on this machine, and
its rounds stand in a column of their own. A round is one pass of the big model, the target: a column with fewer rows
needed fewer passes for its words. At temperature 0 all columns must show the same text, for drafting never changes what
the target would write; where its two best tokens are as good as tied, rounding may decide differently in one of them,
and the text is marked from there on.</p>"""
TOKENS = 96  # of each run at the start: four of them are done in a quarter of a minute
PRIVATE = {"show_progress": "hidden", "api_visibility": "private"}
QUIET = {"queue": False, **PRIVATE}


def compare(service: Service) -> None:
    handlers = Compare(service)
    methods = service.methods(service.pair)
    shown = gr.State(count(methods))
    gr.HTML(LEAD, apply_default_css=False)
    shared = _shared(service)
    with gr.Row(elem_classes="sl-compare-columns"):
        places = [
            _column(service, number, start, number < count(methods)) for number, start in enumerate(beginning(methods))
        ]
    with gr.Row(elem_classes="sl-small-actions"):
        more = gr.Button(
            "Add a run", size="sm", elem_id="compare-add", interactive=count(methods) < MOST, min_width=120
        )
    with gr.Row(elem_classes="sl-actions"):
        run = gr.Button(RUN, variant="primary", elem_id="compare-run", scale=3, min_width=140)
        again = gr.Button("Run again", elem_id="compare-again", visible=False, scale=2, min_width=110)
        stop = gr.Button("Stop", elem_id="compare-stop", interactive=False, scale=1, min_width=90)
    told = notice("compare-notice")
    table = sheet("compare-table", view.table([]))
    runs = grid("compare-grid")
    drawn = charts(view.chart([]), "compare-charts", {view.CHART: "Tokens against time"})
    with gr.Row(elem_classes="sl-files"):
        traces = _download("Save the traces (JSON, zipped)", "compare-traces")
        sums = _download("Save the table (CSV)", "compare-csv")
    screen = Screen(told, run, stop, again, runs, table, drawn, traces, sums)
    _wire(service, handlers, shared, shown, places, more, screen)


def _wire(service: Service, handlers: Compare, shared: dict, shown: gr.State, places: list, more, screen) -> None:
    own = [widget for _, widgets, _ in places for widget in widgets.values()]
    columns, removes = [column for column, _, _ in places], [remove for _, _, remove in places]
    # Our own line decides who is next, so that a visitor can be told their place; all who may wait in it get in here.
    queued = {"concurrency_limit": 2 * service.limits.queue + 2, "concurrency_id": "compare"}
    inputs = [*shared.values(), shown, *own]
    gr.on([screen.run.click, shared["prompt"].submit], handlers.run, inputs, list(screen), **queued, **PRIVATE)
    screen.again.click(handlers.run_again, inputs, list(screen), **queued, **PRIVATE)
    # Beside the queue: a Stop that waits behind the run it is to stop would be no Stop.
    screen.stop.click(handlers.stop, **QUIET)
    layout = [shown, *columns, *removes, more]
    more.click(handlers.added, shown, layout, **QUIET)
    for number, (_, widgets, remove) in enumerate(places):
        remove.click(handlers.removed(number), [shown, *own], [*layout, *own], **QUIET)
        _follow(widgets)
    chosen = [widgets["method"] for _, widgets, _ in places]
    shared["pair"].input(handlers.chosen, [shared["pair"], *chosen], [screen.notice, *chosen], **QUIET)


def _follow(widgets: dict[str, Component]) -> None:
    """γ stands still where auto chooses it, and without drafts there is none."""

    def follow(method: str, auto: bool):
        drafts = method != "none"
        return gr.update(interactive=drafts), gr.update(interactive=drafts and not auto)

    both = [widgets["method"], widgets["auto"]]
    gr.on([each.change for each in both], follow, both, [widgets["auto"], widgets["gamma"]], **QUIET)


def _shared(service: Service) -> dict[str, Component]:
    """By name, in the order of SHARED."""
    told, made = described(service.limits), {}
    titles = {pair.name: pair.title for pair in service.pairs.values()}
    lines = {"lines": 3, "max_lines": 8}
    made["prompt"] = gr.Textbox(
        told["prompt"].default, label="Prompt", info=told["prompt"].hint, elem_id="compare-prompt", **lines
    )
    with gr.Row(equal_height=True):
        made["pair"] = control(told["pair"], elem_id="compare-pair", choices=choices(titles), min_width=220, scale=3)
        tokens = replace(told["tokens"], default=min(TOKENS, told["tokens"].default))
        made["tokens"] = control(tokens, elem_id="compare-tokens", min_width=110)
        made["seed"] = control(told["seed"], elem_id="compare-seed", min_width=110)
    return {name: made[name] for name in SHARED}


def _column(service: Service, number: int, start: dict, visible: bool) -> tuple:
    """The column, its controls by name in the order of OWN, and the button that takes it away."""
    told, made = described(service.limits), {}
    methods = choices(METHODS, (AUTO, *service.methods(service.pair)))
    drafts = start["method"] != "none"
    with gr.Column(visible=visible, min_width=230, elem_classes="sl-compare-column") as column:
        gr.HTML(f"<h3>Run {number + 1}</h3>", apply_default_css=False)
        for name in OWN:
            more = {"choices": methods} if name == "method" else {}
            if name == "auto":
                more = {"label": "γ auto", "interactive": drafts}
            if name == "gamma":
                more = {"interactive": drafts and not start["auto"]}
            begins = replace(told[name], default=start[name])
            made[name] = control(begins, elem_id=f"compare-{name}-{number + 1}", **more)
        remove = gr.Button("Remove this run", size="sm", elem_id=f"compare-remove-{number + 1}", min_width=90)
    return column, made, remove


def _download(label: str, name: str) -> gr.DownloadButton:
    return gr.DownloadButton(label, interactive=False, elem_id=name, min_width=140)
