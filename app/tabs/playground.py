"""The first screen: ask, run, see every verdict and what it was worth."""

import gradio as gr

from app.components.notice import notice
from app.components.ribbon import ribbon
from app.components.tiles import tiles
from app.handlers import Handlers, Screen
from app.opening import opening
from app.service import Service
from app.session import Session
from app.tabs import share
from app.tabs.controls import prompt, settings
from app.tabs.results import connect, results


def playground(service: Service, state: gr.HTML, shared: gr.HTML) -> tuple[gr.HTML, list, gr.State]:
    """``state`` and ``shared`` stand above all tabs: the chip, and the bar that shares.

    Returns the notice above the results, all controls in the order of controls.NAMES, and what was run last.
    """
    handlers = Handlers(service)
    session = gr.State(Session())
    with gr.Row(elem_classes="sl-ask", equal_height=True):
        with gr.Column(scale=1, min_width=320, elem_classes="sl-prompt"):
            text = prompt(service)
            with gr.Row(elem_classes="sl-actions"):
                run = gr.Button("Run", variant="primary", elem_id="run", scale=3, min_width=140)
                again = gr.Button("Run again", elem_id="again", visible=False, scale=2, min_width=110)
                stop = gr.Button("Stop", variant="secondary", elem_id="stop", interactive=False, scale=1, min_width=90)
        with gr.Column(scale=1, min_width=320, elem_classes="sl-settings"):
            controls = settings(service, handlers, text, state)
    first = opening()
    above, rounds, numbers = notice(value=first.notice), ribbon(first.ribbon), tiles(first.tiles)
    choices = controls.some("pair", "method", "auto", "gamma", "temperature")
    below = results(service, choices, first.charts, first.race)
    screen = Screen(
        ribbon=rounds, tiles=numbers, notice=above, run=run, stop=stop, again=again, chip=state, session=session,
        **below.shown._asdict(),
    )  # fmt: skip
    # Our own line decides who is next, so that a visitor can be told their place; all who may wait in it get in here.
    queued = {"concurrency_limit": 2 * service.limits.queue + 2, "concurrency_id": "run"}
    private = {"show_progress": "hidden", "api_visibility": "private"}
    started = gr.on([run.click, text.submit], handlers.run, controls.inputs, list(screen), **queued, **private)
    repeated = again.click(handlers.run_again, controls.inputs, list(screen), **queued, **private)
    connect(below, screen, [started, repeated], choices)
    share.connect(shared, service, screen, [started, repeated], controls.inputs)
    rounds.missing(handlers.whole, session, rounds, queue=False, **private)
    # Beside the queue: a Stop that waits behind the run it is to stop would be no Stop.
    stop.click(handlers.stop, queue=False, **private)
    return above, controls.inputs, session
