"""Below the rounds: the race, the charts, files in and out, and the settings for other engines."""

from typing import NamedTuple

import gradio as gr

from app.components.charts import charts
from app.components.production import production
from app.components.race import race
from app.handlers import Screen
from app.repeats import COUNTS, Again, Repeats
from app.results import Results, Shown
from app.service import Service
from app.session import Session

# A browser says nothing when the file that is chosen was the last one, too: a refused file could not be tried again.
FORGET = "() => document.querySelectorAll('input[type=file]').forEach(input => { input.value = ''; })"
PRIVATE = {"show_progress": "hidden", "api_visibility": "private"}


class Below(NamedTuple):
    handlers: Results
    repeats: Repeats
    shown: Shown
    upload: gr.UploadButton
    recipes: gr.HTML
    count: gr.Radio
    repeat: gr.Button


def results(service: Service, choices: list, drawn_first: str, raced_first: str) -> Below:
    """``choices``: pair, method, auto, γ and temperature, as they stand on the page; then the first values of the
    charts and of the race."""
    handlers = Results(service)
    recipe = handlers.configure(*(choice.value for choice in choices), Session())
    lanes = race(raced_first)
    with gr.Row(elem_classes="sl-repeats"):
        hint = "One run may be lucky. The lanes are measured in turn, the median is shown and the spread told."
        count = gr.Radio(
            [(f"{n} times", n) for n in COUNTS],
            value=COUNTS[0],
            label="Repeats",
            info=hint,
            elem_id="repeats",
            scale=3,
            min_width=300,
        )
        repeat = gr.Button("Measure the race again", elem_id="repeat", scale=1, min_width=180)
    drawn = charts(drawn_first)
    with gr.Row(elem_classes="sl-files"):
        trace = _download("Save trace (JSON)", "trace-file")
        baseline = _download("Save baseline (JSON)", "baseline-file")
        table = _download("Save tokens (CSV)", "table-file")
        page = _download("Save replay (HTML)", "page-file")
        upload = gr.UploadButton("Open a trace", file_count="multiple", elem_id="open-trace", min_width=140)
    return Below(
        handlers,
        Repeats(service),
        Shown(lanes, drawn, trace, baseline, table, page),
        upload,
        production(recipe),
        count,
        repeat,
    )


def connect(below: Below, screen: Screen, runs: list, choices: list) -> None:
    """``runs``: the events of a run, which clear what is here when they begin."""
    handlers, shown = below.handlers, list(below.shown)
    ran = [run.then(handlers.show, screen.session, shown, **PRIVATE) for run in runs]
    brought = below.upload.upload(handlers.bring, below.upload, list(screen), **PRIVATE)
    below.upload.upload(None, js=FORGET, api_visibility="private")
    opened = brought.success(handlers.show, screen.session, shown, **PRIVATE)
    again = Again(screen.tiles, screen.notice, screen.race, screen.charts, screen.stop)
    below.repeat.click(
        below.repeats.measure,
        [screen.session, below.count],
        list(again),
        concurrency_limit=2 * below.repeats.service.limits.queue + 2,  # our own line decides who is next
        **PRIVATE,
    )
    inputs = [*choices, screen.session]
    for event in (*(choice.change for choice in choices), *(each.then for each in ran), opened.then):
        event(handlers.configure, inputs, below.recipes, queue=False, **PRIVATE)


def _download(label: str, name: str) -> gr.DownloadButton:
    return gr.DownloadButton(label, interactive=False, elem_id=name, min_width=140)
