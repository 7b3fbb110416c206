"""Lays out the Playground: the prompt and its settings, the rounds, and the results below; wires Run and Stop."""

import gradio as gr

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground import share_panel
from app.playground.form_panel import prompt, settings
from app.playground.press import Press
from app.playground.results_panel import connect, results
from app.playground.run_handlers import Outputs, RunHandlers
from app.playground.startup_run import opening
from app.ui.html_component import component
from app.ui.notice import notice
from app.ui.widgets import PRIVATE, QUIET


def playground(service: Service, chip: gr.HTML, shared: gr.HTML) -> tuple[gr.HTML, list, gr.State]:
    """``chip`` and ``shared`` are above all tabs: the engine's state, and the share bar.

    Returns the notice above the results, all controls in the order of form.NAMES, and the session.
    """
    handlers = RunHandlers(service)
    session, press = gr.State(Session()), gr.State(Press())
    with gr.Row(elem_classes="sl-ask", equal_height=True):
        with gr.Column(scale=1, min_width=320, elem_classes="sl-prompt"):
            text = prompt(service)
            with gr.Row(elem_classes="sl-actions"):
                run = gr.Button("Run", variant="primary", elem_id="run", scale=3, min_width=140)
                again = gr.Button("Run again", elem_id="again", visible=False, scale=2, min_width=110)
                stop = gr.Button("Stop", variant="secondary", elem_id="stop", interactive=False, scale=1, min_width=90)
        with gr.Column(scale=1, min_width=320, elem_classes="sl-settings"):
            controls = settings(service, text, chip)
    first = opening()
    above = notice(value=first.notice)
    player, numbers = component("player", first.ribbon, "ribbon"), component("tiles", first.tiles)
    choices = controls.some("pair", "method", "auto", "gamma", "temperature")
    below = results(service, choices, first.charts, first.race)
    outputs = Outputs(player, numbers, above, below.shown.charts)
    # The engine's own queue decides who is next, so every visitor who may wait in it is let in here.
    queued = {"concurrency_limit": 2 * service.limits.queue + 2, "concurrency_id": "run"}
    buttons = [run, stop, again, session]
    files = [shown for name, shown in below.shown._asdict().items() if name.endswith("_file")]

    def wire(triggers: list, is_again: bool):
        """The three events of a press; returns the one that ends it, which also comes after an error."""
        begin = gr.on(triggers, handlers.begin, press, [*buttons, below.shown.race, *files], **QUIET)
        inputs = [press, gr.State(is_again), *controls.inputs]
        stream = begin.then(handlers.run, inputs, list(outputs), **queued, **PRIVATE)
        return stream.then(handlers.end, press, buttons, **QUIET)

    ends = [wire([run.click, text.submit], False), wire([again.click], True)]
    connect(below, outputs, session, press, stop, ends, choices)
    share_panel.connect(shared, service, above, session, ends, controls.inputs)
    player.missing(handlers.replay, [press, session], player, **QUIET)
    stop.click(handlers.stop, press, **QUIET)  # queue=False, so that Stop does not wait for the run it cancels
    return above, controls.inputs, session
