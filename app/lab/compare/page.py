"""Lays out the comparison: two to four runs of one prompt, their rounds in columns."""

from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from app.form import choices, controls_by_name
from app.jobs.service import Service
from app.lab.compare import view
from app.lab.compare.handlers import MOST, OWN, SHARED, CompareHandlers, beginning, count
from app.lab.controls import enclosing_tabs, fold, pair_control
from app.lab.experiment import PageState
from app.lab.wiring import Wiring
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.method_choices import method_choices
from app.ui.notice import notice
from app.ui.widgets import QUIET, control, download, open_files, run_and_stop
from engine.config import ACCEPTANCE

LEAD = """<p class="sl-lab-lead">Compare the columns: every run answers the same prompt, one after the other on this
machine. A round is one pass of the big model, the target. A column with fewer rows needed fewer passes for its words.
At temperature 0 all columns must show the same text, because drafting never changes it. Only where the target's two
best tokens are as good as tied may rounding decide differently. The text is marked from there on.</p>"""
TOKENS = 96  # each run's limit when the page opens: four such runs take a quarter of a minute


def compare(service: Service, session: gr.State) -> Wiring:
    """Lays out the tab. ``session``: what the visitor last ran in the playground, whose prompt is offered."""
    handlers, state, tab = CompareHandlers(service), gr.State(PageState()), enclosing_tabs()[0]
    opening = handlers.opening()
    methods = service.offer.methods(service.offer.pair)
    shown = gr.Number(count(methods), precision=0, visible=False)
    with gr.Row(elem_classes="sl-actions"):
        run, stop = run_and_stop(handlers.RUN, "compare")
        again = gr.Button("Run again", elem_id="compare-again", visible=False, scale=2, min_width=110)
        recordings = open_files("Add recordings of your server", "compare-recordings")
    with fold("compare", "the prompt and the runs"):
        gr.HTML(LEAD, apply_default_css=False)
        shared = _lay_out_shared(service)
        with gr.Row(elem_classes="sl-compare-columns"):
            places = [
                _column(service, number, start, number < count(methods))
                for number, start in enumerate(beginning(methods))
            ]
        with gr.Row(elem_classes="sl-small-actions"):
            more = gr.Button(
                "Add a run", size="sm", elem_id="compare-add", interactive=count(methods) < MOST, min_width=120
            )
    words = notice("compare-notice")
    mark = notice("compare-recorded", opening.mark)
    table = component("table", opening.table, "compare-table")
    runs = component("compare", opening.grid, "compare-grid")
    drawn = charts(opening.charts, "compare-charts", {view.CHART: "Tokens against time"})
    with gr.Row(elem_classes="sl-files"):
        files = (
            download("Save the traces (JSON, zipped)", "compare-traces"),
            download("Save the table (CSV)", "compare-csv"),
        )
    own = [widget for _, widgets, _ in places for widget in widgets.values()]
    inputs, ends = [*shared.values(), shown, *own], [run, stop, *files, again]
    outputs = handlers.Outputs(words, runs, table, drawn, mark)
    layout = [*(column for column, _, _ in places), *(remove for _, _, remove in places), more]
    wiring = Wiring(handlers, inputs, outputs, state, ends, layout)
    added = recordings.upload(handlers.add_recordings, [state, recordings], list(outputs), **QUIET)
    added.success(handlers.end, state, ends, **QUIET)
    wiring.connect(partial(gr.on, [run.click, shared["prompt"].submit]), handlers.run)
    wiring.connect(again.click, handlers.run_again)
    wiring.connect(table.again, handlers.run_again)
    wiring.keep_form(more.click(handlers.add, shown, [shown, *layout], **QUIET).then)
    for number, (_, widgets, remove) in enumerate(places):
        remove.click(handlers.remove(number), [shown, *own], [shown, *layout, *own], **QUIET)
        _follow(widgets)
    method_lists = [widgets["method"] for _, widgets, _ in places]
    tab.select(handlers.own_prompt, [session, shared["prompt"]], shared["prompt"], **QUIET)
    tab.select(handlers.list_methods, shared["pair"], method_lists, **QUIET)
    shared["pair"].input(handlers.select_pair, [shared["pair"], *method_lists], [words, *method_lists], **QUIET)
    return wiring


def _follow(widgets: dict[str, Any]) -> None:
    """Disables γ where auto chooses it, and all that is about drafts without them."""

    def follow(method: str, auto: bool):
        drafts = method != "none"
        return [gr.update(interactive=on) for on in (drafts, drafts and not auto, drafts)]

    both = [widgets["method"], widgets["auto"]]
    followers = [widgets[name] for name in ("auto", "gamma", "acceptance")]
    gr.on([each.change for each in both], follow, both, followers, **QUIET)


def _lay_out_shared(service: Service) -> dict[str, Any]:
    """Lays out the controls that all runs share, by name in the order of SHARED."""
    controls, widgets = controls_by_name(service.limits), {}
    lines: dict[str, Any] = {"lines": 3, "max_lines": 8}
    widgets["prompt"] = gr.Textbox(
        controls["prompt"].default, label="Prompt", info=controls["prompt"].hint, elem_id="compare-prompt", **lines
    )
    with gr.Row(equal_height=True):
        widgets["pair"] = pair_control(service, "compare", scale=3)
        tokens = replace(controls["tokens"], default=min(TOKENS, controls["tokens"].default))
        widgets["tokens"] = control(tokens, elem_id="compare-tokens", min_width=110)
        widgets["seed"] = control(controls["seed"], elem_id="compare-seed", min_width=110)
    return {name: widgets[name] for name in SHARED}


def _column(service: Service, number: int, start: dict, visible: bool) -> tuple:
    """Lays out a column. Returns it, its controls by name in the order of OWN, and its Remove button."""
    controls, widgets = controls_by_name(service.limits), {}
    methods = method_choices(service, service.offer.pair)
    drafts = start["method"] != "none"
    with gr.Column(visible=visible, min_width=230, elem_classes="sl-compare-column") as column:
        gr.HTML(f"<h3>Run {number + 1}</h3>", apply_default_css=False)
        for name in OWN:
            more = {"choices": methods} if name == "method" else {}
            if name == "auto":
                more = {"label": "γ auto", "interactive": drafts}
            if name == "gamma":
                more = {"interactive": drafts and not start["auto"]}
            if name == "acceptance":
                rules = {value: rule.title for value, rule in ACCEPTANCE.items()}
                more = {"choices": choices(rules), "info": None, "interactive": drafts}
            begins = replace(controls[name], default=start[name])
            widgets[name] = control(begins, elem_id=f"compare-{name}-{number + 1}", **more)
        remove = gr.Button("Remove this run", size="sm", elem_id=f"compare-remove-{number + 1}", min_width=90)
    return column, widgets, remove
