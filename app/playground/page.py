"""Lays out the Playground: the prompt and its settings, the stage, and the result tabs below; wires Run and Stop."""

import gradio as gr

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground import share_panel, startup_run
from app.playground.branch_handlers import BranchHandlers
from app.playground.form_panel import describe_pair, drawer, prompt_line, quick_row, wire
from app.playground.link_handlers import LinkHandlers
from app.playground.press import RunPress
from app.playground.results_panel import connect, end, results
from app.playground.run_handlers import RunHandlers
from app.ui.html_component import component
from app.ui.notice import keep_alive
from app.ui.widgets import PRIVATE, QUIET


def playground(service: Service, chip: gr.HTML, shared: gr.HTML) -> tuple[gr.HTML, list, gr.State]:
    """``chip`` and ``shared`` are above all tabs: the engine's state, and the share bar.

    Returns the stage, all controls in the order of form.NAMES, and the session.
    """
    specs = startup_run.controls(service)
    handlers = RunHandlers(service)
    session, press = gr.State(Session()), gr.State(RunPress())
    text, run, stop = prompt_line(specs)
    quick = quick_row(service, specs, text)
    stage_first, charts_first = startup_run.opening()
    stage = keep_alive(component("stage", stage_first, look="sl-stage"))
    controls = drawer(service, specs, quick)
    wire(service, controls, chip)
    below = results(service, controls, charts_first)
    links = LinkHandlers(service, specs, below.handlers)

    def begin(request: gr.Request, press: RunPress, *values) -> list:
        """Run, Stop, and the address, so that a reload brings these settings back."""
        return [*handlers.begin(request, press), links.address(Session(), *values)]

    # The engine's own queue decides who is next, so every visitor who may wait in it is let in here.
    queued = {"concurrency_limit": service.runs.most_requests, "concurrency_id": "run"}
    inputs = [press, *controls.inputs]
    start = gr.on([run.click, text.submit], begin, inputs, [run, stop, shared], **QUIET)
    stream = start.then(handlers.run, inputs, stage, **queued, **PRIVATE)
    again = stage.alone(handlers.begin, press, [run, stop], **QUIET)
    again = again.then(handlers.run_alone, [press, session], stage, **queued, **PRIVATE)
    ends = [run, stop, session, *list(below.shown)[-4:]]
    ended = [end(event, handlers, press, ends) for event in (stream, again)]
    connect(below, stage, session, press, stop, ended, controls)
    for event in ended:
        describe_pair(event.then, service, controls)
    branches = BranchHandlers(service)
    forked = stage.fork(branches.begin, press, stop, **QUIET)
    forked = forked.then(branches.run, [press, session], stage, **queued, **PRIVATE)
    forked = end(forked, branches, press, [stop, session])
    dropped = stage.drop(branches.drop, [press, session], [stage, session], **QUIET)
    takes_over = stage.keep(branches.keep, [press, session], [stage, session], **QUIET)
    for event in (*ended, forked, dropped):
        event.then(links.branch_address, [session, *controls.inputs], shared, **QUIET)
    for event in (forked, dropped, takes_over):
        event.then(below.handlers.show, session, list(below.shown), trigger_mode="always_last", **PRIVATE)
    share_panel.connect(shared, links, stage, session, press, controls.inputs, list(below.shown))
    stage.missing(handlers.replay, [press, session], stage, **QUIET)
    stop.click(handlers.stop, None, **QUIET)  # queue=False, so that Stop does not wait for the run it cancels
    return stage, controls.inputs, session
