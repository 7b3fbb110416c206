"""Lays out the results below the rounds: race, repeats, charts, files, and settings for other engines."""

from typing import NamedTuple

import gradio as gr

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground.repeat_handlers import COUNTS, RepeatHandlers, RepeatOutputs
from app.playground.result_handlers import Results, Shown
from app.playground.run_handlers import Outputs
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.widgets import PRIVATE, QUIET, download

# Because a browser fires no event when the same file is chosen again, a refused file could not be retried.
FORGET = "() => document.querySelectorAll('input[type=file]').forEach(input => { input.value = ''; })"


class Below(NamedTuple):
    handlers: Results
    repeats: RepeatHandlers
    shown: Shown
    upload: gr.UploadButton
    recipes: gr.HTML
    count: gr.Radio
    repeat: gr.Button


def results(service: Service, choices: list, drawn_first: str, raced_first: str) -> Below:
    """``choices``: the components of pair, method, auto, γ and temperature. The texts are the first values of charts
    and race."""
    handlers = Results(service)
    recipe = handlers.configure(*(choice.value for choice in choices), Session())
    lanes = component("race", raced_first)
    with gr.Row(elem_classes="sl-repeats"):
        hint = "One run can be lucky. Repeats measure both in turn and show the median and the spread."
        times = [(f"{n} times", n) for n in COUNTS]
        count = gr.Radio(times, value=COUNTS[0], label="Repeats", info=hint, elem_id="repeats", scale=3, min_width=300)
        repeat = gr.Button("Measure the race again", elem_id="repeat", scale=1, min_width=180)
    drawn = charts(drawn_first)
    with gr.Row(elem_classes="sl-files"):
        trace = download("Save trace (JSON)", "trace-file")
        baseline = download("Save baseline (JSON)", "baseline-file")
        table = download("Save tokens (CSV)", "table-file")
        page = download("Save replay (HTML)", "page-file")
        upload = gr.UploadButton("Open a trace", file_count="multiple", elem_id="open-trace", min_width=140)
    return Below(
        handlers,
        RepeatHandlers(service),
        Shown(lanes, drawn, trace, baseline, table, page),
        upload,
        component("engine_recipes", recipe, "production", title="Take it to production"),
        count,
        repeat,
    )


def connect(
    below: Below, outputs: Outputs, session: gr.State, press: gr.State, stop: gr.Button, runs: list, choices: list
) -> None:
    """Wires the results to ``runs``, the events that end a run."""
    handlers, shown = below.handlers, list(below.shown)
    # Otherwise a run that ends while the results of the one before it are still on their way would never show its own.
    last = {"trigger_mode": "always_last"}
    ran = [run.then(handlers.show, session, shown, **last, **PRIVATE) for run in runs]
    opened_outputs = [outputs.player, outputs.tiles, outputs.notice, session]
    opening = below.upload.upload(handlers.bring, below.upload, opened_outputs, **PRIVATE)
    below.upload.upload(None, js=FORGET, api_visibility="private")
    opened = opening.success(handlers.show, session, shown, **PRIVATE)
    repeated = RepeatOutputs(outputs.tiles, outputs.notice, below.shown.race, outputs.charts)
    limit = 2 * below.repeats.service.limits.queue + 2  # the engine's own queue decides who is next
    begin = below.repeat.click(below.repeats.begin, press, stop, **QUIET)
    inputs = [press, session, below.count]
    stream = begin.then(below.repeats.repeat, inputs, list(repeated), concurrency_limit=limit, **PRIVATE)
    stream.then(below.repeats.end, press, stop, **QUIET)
    inputs = [*choices, session]
    for event in (*(choice.change for choice in choices), *(each.then for each in ran), opened.then):
        event(handlers.configure, inputs, below.recipes, **QUIET)
