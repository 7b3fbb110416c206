"""Lays out the answer: three questions, one button, and the answer."""

import gradio as gr

from app.jobs.service import Service
from app.lab.answer.handlers import MOST_USERS, AnswerHandlers, Outputs
from app.lab.answer.view import PICTURE, WAITING
from app.lab.experiment import PageState, Wiring
from app.lab.sweep.work import prompts
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice
from app.ui.widgets import QUIET, download, run_and_stop
from app.views.figures import encode_figures

HINT = "Several texts: a line --- between two. Empty: the kind beside."


def answer(service: Service) -> None:
    handlers, state = AnswerHandlers(service), gr.State(PageState())
    with gr.Row(elem_classes="sl-answer-form"):
        with gr.Column(scale=3, min_width=260):
            own = gr.Textbox(label="Your text", lines=3, max_lines=6, elem_id="answer-own", info=HINT,
                             placeholder="Paste what your users ask.")  # fmt: skip
        with gr.Column(scale=2, min_width=220):
            kind = gr.Dropdown(list(prompts()), value="chat", label="Or a kind of text", elem_id="answer-kind")
            file = gr.UploadButton("Open a text file", file_types=["text"], elem_id="answer-file", size="sm")
        with gr.Column(scale=2, min_width=220):
            users = gr.Slider(1, MOST_USERS, 1, step=1, label="How many at once", elem_id="answer-users")
            place = gr.Dropdown(handlers.places(), value=service.offer.pair, label="Where it will run",
                                elem_id="answer-place")  # fmt: skip
    inputs = [own, kind, users, place]
    with gr.Row(elem_classes="sl-actions"):
        run, stop = run_and_stop(handlers.RUN, "answer")
        over = gr.Button("Measure again", elem_id="answer-over", interactive=False, scale=1, min_width=110)
    words = notice("answer-notice", handlers.size(*(each.value for each in inputs)))
    outputs = Outputs(
        words, component("answer", elem_id="answer-words"),
        charts(encode_figures({PICTURE: WAITING}), "answer-charts", {PICTURE: "Speedup against users"}),
    )  # fmt: skip
    recipes = component("engine_recipes", elem_id="answer-production", title="Switch it on")
    with gr.Row(elem_classes="sl-files"):
        files = download("Save the table (CSV)", "answer-csv"), download("Save all numbers (JSON)", "answer-json")
    wiring = Wiring(handlers, inputs, outputs, state, [run, stop, *files, over, recipes])
    wiring.on(run.click, handlers.run)
    wiring.on(over.click, handlers.start_over)
    file.upload(handlers.read_file, file, own, **QUIET)
    gr.on([each.change for each in inputs], handlers.size, inputs, words, **QUIET)
