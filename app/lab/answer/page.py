"""Lays out the answer: three questions, one button, and the answer."""

from typing import Any

import gradio as gr

from app.jobs.service import Service
from app.lab.answer.handlers import AnswerHandlers, AnswerState, Outputs
from app.lab.answer.view import PICTURE, WAITING
from app.lab.experiment import Wiring
from app.lab.sweep.work import prompts
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice
from app.ui.widgets import QUIET, download, run_and_stop
from app.views.figures import encode_figures
from engine.config import MAX_SHARERS

HINT = "Separate several texts with a line that says ---, or paste JSON lines with prompt and kind."
PLACE = "Speedups are measured. Of another server only the tokens per pass can be counted here."
MODEL = "Its name, for the commands below; empty takes this page's."


def answer(service: Service) -> None:
    handlers, state = AnswerHandlers(service), gr.State(AnswerState())
    with gr.Row(elem_classes="sl-answer-form"):
        inputs, file, model = _form(handlers, service)
    with gr.Row(elem_classes="sl-actions"):
        run, stop = run_and_stop(handlers.RUN, "answer")
        over = gr.Button("Measure again", elem_id="answer-over", interactive=False, scale=1, min_width=110)
    words = notice("answer-notice", handlers.size(*(each.value for each in inputs)))
    outputs = Outputs(
        words, component("answer", elem_id="answer-words"),
        charts(encode_figures({PICTURE: WAITING}), "answer-charts", {PICTURE: "What was measured"}),
    )  # fmt: skip
    recipes = component("engine_recipes", elem_id="answer-production", title="Switch it on")
    with gr.Row(elem_classes="sl-files"):
        files = download("Save the table (CSV)", "answer-csv"), download("Save all numbers (JSON)", "answer-json")
    wiring = Wiring(handlers, inputs, outputs, state, [run, stop, *files, over, recipes])
    wiring.on(run.click, handlers.run)
    wiring.on(over.click, handlers.start_over)
    file.upload(handlers.read_file, file, inputs[0], **QUIET)
    model.change(handlers.name_model, [state, model], recipes, **QUIET)
    gr.on([each.change for each in inputs], handlers.size, inputs, words, **QUIET)


def _form(handlers: AnswerHandlers, service: Service) -> tuple[list[Any], gr.UploadButton, gr.Textbox]:
    """The controls of the question, the upload, and the name of the reader's own model."""
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
    return [own, kind, users, place, tokens, temperature], file, model
