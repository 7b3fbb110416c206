"""Lays out the answer: three questions, one button, and the answer."""

from typing import Any

import gradio as gr

from app.jobs.service import Service
from app.lab.answer.handlers import AnswerHandlers
from app.lab.answer.view import PICTURE
from app.lab.experiment import PageState
from app.lab.sweep.work import prompts
from app.lab.wiring import Wiring
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice
from app.ui.widgets import QUIET, download, open_files
from engine.config import MAX_SHARERS

HINT = "Separate several texts with a line that says ---, or paste JSON lines with prompt and kind."
PLACE = "Speedups are measured. For another server, only tokens per pass are counted, unless you open its recordings."
MODEL = "Its name, for the commands below. Leave it empty for this page's."


def answer(service: Service) -> Wiring:
    handlers, state = AnswerHandlers(service), gr.State(PageState())
    opening = handlers.opening()
    with gr.Row(elem_classes="sl-answer-form"):
        inputs, file = _form(handlers, service)
    with gr.Row(elem_classes="sl-actions"):
        run, stop = handlers.buttons("answer")
        over = gr.Button("Measure again", elem_id="answer-over", interactive=False, scale=1, min_width=110)
        recorded = open_files("Answer from recordings of your server", "answer-recordings")
    words = notice("answer-notice", handlers.size(*(each.value for each in inputs)))
    mark = notice("answer-recorded", opening.mark)
    outputs = handlers.Outputs(
        words, component("answer", opening.answer, "answer-words"),
        charts(opening.picture, "answer-charts", {PICTURE: "What was measured"}),
        component("engine_recipes", opening.recipes, "answer-production", title="Switch it on"), mark,
    )  # fmt: skip
    with gr.Row(elem_classes="sl-files"):
        files = download("Save the table (CSV)", "answer-csv"), download("Save all numbers (JSON)", "answer-json")
    wiring = Wiring(handlers, inputs, outputs, state, [run, stop, *files, over])
    wiring.connect(run.click, handlers.run)
    wiring.connect(over.click, handlers.start_over)
    opened = recorded.upload(handlers.open_recordings, [state, recorded], list(outputs), **QUIET)
    opened.success(handlers.end, state, list(wiring.ends), **QUIET)
    file.upload(handlers.read_file, file, inputs[0], **QUIET)
    inputs[-1].change(handlers.name_model, [state, inputs[-1]], outputs.recipes, **QUIET)
    gr.on([each.change for each in inputs[:-1]], handlers.size, inputs, words, **QUIET)
    return wiring


def _form(handlers: AnswerHandlers, service: Service) -> tuple[list[Any], gr.UploadButton]:
    """Lays out the controls of the question, the last of them the name of the reader's own model, and the upload."""
    with gr.Column(scale=3, min_width=260):
        own = gr.Textbox(label="Your texts", lines=3, max_lines=6, elem_id="answer-own", info=HINT,
                         placeholder="Paste what your users ask.")  # fmt: skip
        file = gr.UploadButton(
            "Open a text or JSONL file", file_types=["text", ".jsonl"], elem_id="answer-file", size="sm"
        )
    with gr.Column(scale=2, min_width=220):
        kind = gr.Dropdown(list(prompts()), value="chat", label="Or a kind of text", elem_id="answer-kind")
        tokens = gr.Slider(16, service.limits.new_tokens, min(48, service.limits.new_tokens), step=1,
                           label="Tokens of an answer", elem_id="answer-tokens")  # fmt: skip
        temperature = gr.Slider(0, 1.5, 0, step=0.1, label="Temperature", elem_id="answer-temperature")
    with gr.Column(scale=2, min_width=220):
        users = gr.Slider(1, MAX_SHARERS, 1, step=1, label="How many at once", elem_id="answer-users")
        place = gr.Dropdown(handlers.places(), value=service.offer.pair, label="Where it will run",
                            info=PLACE, elem_id="answer-place")  # fmt: skip
        model = gr.Textbox(label="Your model", elem_id="answer-model", info=MODEL, placeholder="OWNER/NAME")
    return [own, kind, users, place, tokens, temperature, model], file
