"""Lays out the result tabs below the stage: charts and repeats, files, and settings for other engines."""

from typing import NamedTuple

import gradio as gr

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground.form_panel import Controls
from app.playground.repeat_handlers import AGAIN, COUNTS
from app.playground.result_handlers import CHOICES, LABELS, Results, ResultValues
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.widgets import QUIET, download, open_files
from app.views.run_charts import TABS

FILES = """<p class="sl-files-words">The trace holds every number of the run. Open it together with its baseline to see
the speedup again. The table counts rounds and positions from 0. The replay is one page that needs no server.</p>"""


class ResultTabs(NamedTuple):
    """``outputs``: what a run changes; ``count``: how many measurements; ``repeat``: the button that makes them."""

    handlers: Results
    outputs: ResultValues
    upload: gr.UploadButton
    recipes: gr.HTML
    count: gr.Radio
    repeat: gr.Button


def results(service: Service, controls: Controls, drawn_first: list[str], session: gr.State) -> ResultTabs:
    """Lays out the results. ``drawn_first``: the charts of each tab."""
    handlers, titles = Results(service), iter(zip(drawn_first, TABS.items(), strict=True))

    def tab(title: str, name: str, **more) -> gr.Tab:
        return gr.Tab(title, id=name, elem_id=f"result-{name}", **more)

    def figures() -> gr.HTML:
        value, (name, own) = next(titles)
        return charts(value, f"charts-{name}", own)

    with gr.Tabs(elem_id="results", overflow_behavior="wrap"):
        with tab("Race & speed", "race"):
            race = figures()
            with gr.Row(elem_classes="sl-repeats"):
                times = [(f"{n} times", n) for n in COUNTS]
                hint = "One run can be lucky. The medians and their spread take its place."
                count = gr.Radio(times, value=COUNTS[0], label="Repeats", info=hint, elem_id="repeats", min_width=300)
                repeat = gr.Button(AGAIN, elem_id="repeat", scale=0, min_width=180)
        with tab("Acceptance", "acceptance"):
            acceptance = figures()
        with tab("Time", "time"):
            time = figures()
        with tab("Tree", "tree", visible=False) as tree_tab:  # shown for a run that drafted trees
            component("tree", elem_id="tree")
            tree = figures()
        with tab("Files", "files"):
            with gr.Row(elem_classes="sl-files"):
                names = ("trace-file", "baseline-file", "table-file", "page-file")
                trace, baseline, table, page = map(download, LABELS, names)
                upload = open_files("Open a trace", "open-trace")
            gr.HTML(FILES, apply_default_css=False)
        with tab("Use it elsewhere", "elsewhere"):
            recipe = handlers.configure(*(choice.value for choice in controls.some(*CHOICES)), Session())
            recipes = component("engine_recipes", recipe, "production", title="Take it to production")
    outputs = ResultValues(race, acceptance, time, tree, tree_tab, trace, baseline, table, page)
    tabs = ResultTabs(handlers, outputs, upload, recipes, count, repeat)
    choices = controls.some(*CHOICES)
    changes = [choice.change for choice in choices]  # in one event: an answer that is late must not replace a newer one
    gr.on(changes, handlers.configure, [*choices, session], recipes, trigger_mode="always_last", **QUIET)
    return tabs
