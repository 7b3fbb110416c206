"""Lays out the Playground: the prompt and its settings, the stage, and the result tabs below; wires Run and Stop."""

from collections.abc import Callable
from functools import partial

import gradio as gr
from gradio.events import Dependency

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground import share_panel, startup_run, tab_link
from app.playground.after_run import AfterRun
from app.playground.form_panel import drawer, example_buttons, prompt_line, quick_row, wire
from app.playground.link_handlers import LinkHandlers
from app.playground.repeat_handlers import RepeatHandlers
from app.playground.result_handlers import Opened
from app.playground.results_panel import results
from app.playground.run_handlers import RunHandlers
from app.playground.run_press import PressHandlers, RunPress
from app.ui.html_component import component
from app.ui.notice import keep_alive
from app.ui.widgets import PRIVATE, QUIET, streams

OFFER = "Run it in your browser"  # in the stage's head, where many runs go first
IDEA = '<a class="sl-idea sl-button" href="#minute">60-second explanation</a>'  # there, beside a recorded run
# The address of each run's trace, for “My report”: assets/web/lessons/report/report.js reads them.
NOTE_TRACE = """file => {
  try {
    const noted = JSON.parse(sessionStorage.getItem('speclens-runs') ?? '[]');
    sessionStorage.setItem('speclens-runs', JSON.stringify([...noted, file.url].slice(-12)));
    document.dispatchEvent(new Event('speclens-run'));
  } catch { /* a run without a file, or a browser that stores nothing */ }
  return [];
}"""
# Stop is about to vanish, which would drop the keyboard's focus.
TO_STAGE = "() => { document.querySelector('#stage .sl-rows').focus({ preventScroll: true }); return []; }"


def playground(service: Service, status: gr.HTML, shared: gr.HTML) -> tuple[gr.HTML, list, gr.State]:
    """Lays out the playground. ``status`` and ``shared`` are above all tabs: the engine's status, and the share bar.
    Returns the stage, all controls in the order of form.NAMES, and the session."""
    specs = startup_run.controls(service)
    handlers = RunHandlers(service)
    session, press = gr.State(Session()), gr.State(RunPress())
    text, run, stop, link = prompt_line(specs)
    quick = quick_row(service, specs, text)
    stage_first, charts_first = startup_run.opening()
    stage = keep_alive(component("stage", stage_first, look="sl-stage", offer=tab_link.anchor(OFFER) + IDEA))
    controls = drawer(service, specs, quick)
    wire(service, controls, status)
    for prompt, button in example_buttons(controls):
        button.click(partial(handlers.say_whose_run, prompt), [press, session], stage, **QUIET)
    tab_link.connect(link, controls.inputs)
    tabs = results(service, controls, charts_first, session)
    links = LinkHandlers(service, specs, tabs.handlers)
    after = AfterRun(service, tabs.handlers, links)
    # As AfterRun.show returns them.
    result_outputs = [*tabs.outputs, tabs.recipes, *controls.of_the_pair, controls.constraint_note, shared]

    def begin(request: gr.Request, press: RunPress, *values) -> list:
        """Returns Run, Stop, and the address, with which a reload brings these settings and this run back."""
        return [*handlers.begin(request, press), links.press_address(press, *values)]

    def follow(event: Callable, change: Callable, inputs: list, outputs: list, **how) -> Dependency:
        """Calls ``change`` at ``event``, whose last output is the session, and shows all that follows a new one."""
        # Otherwise a run that ends while the results of the one before are still on their way would not show its own.
        last = {"trigger_mode": "always_last"}
        return event(
            partial(after.following, change), [*inputs, *controls.inputs], [*outputs, *result_outputs], **last, **how
        )

    def end(streamed: Dependency, handlers: PressHandlers, *buttons: gr.Button) -> None:
        streamed.failure(handlers.end_orphan, press, [*buttons, session], **QUIET)
        followed = follow(streamed.success, handlers.end, [press], [*buttons, session], **QUIET)
        followed.success(None, tabs.outputs.trace_file, None, js=NOTE_TRACE, api_visibility="private")
        # Gradio handles the files after the handler has returned. Where that fails, nothing of the event arrives.
        followed.failure(handlers.show_failure, press, [*buttons, session, stage], **QUIET)

    queued = {"concurrency_id": "run"} | streams(service.runs.most_requests)
    inputs = [press, *controls.inputs]
    start = gr.on([run.click, text.submit], begin, inputs, [run, stop, shared], **QUIET)
    end(start.then(handlers.run, inputs, stage, **queued), handlers, run, stop)
    again = stage.alone(handlers.begin, press, [run, stop], **QUIET)
    end(again.then(handlers.run_alone, [press, session], stage, **queued), handlers, run, stop)
    resumed = shared.resumed(handlers.resuming, press, [run, stop], **QUIET)
    end(resumed.then(handlers.resume, press, stage, **queued), handlers, run, stop)
    branches, repeats = handlers.branches, RepeatHandlers(service)
    forked = stage.fork(branches.begin, press, stop, **QUIET)
    end(forked.then(branches.run, [press, session], stage, **queued), branches, stop)
    repeated = tabs.repeat.click(repeats.begin, press, [stop, tabs.repeat], **QUIET)
    repeated = repeated.then(repeats.repeat, [press, session, tabs.count], stage, **queued)
    end(repeated, repeats, stop, tabs.repeat)
    for event, change in ((stage.drop, branches.drop), (stage.keep, branches.keep)):
        follow(event, change, [press, session], [stage, session], **QUIET)
    opened = Opened(stage, session, *controls.inputs)
    opening = tabs.upload.upload(tabs.handlers.bring, tabs.upload, list(opened), **PRIVATE)
    opening.success(after.show_file, [session, *controls.inputs], result_outputs[:-1], **QUIET)
    share_panel.connect(shared, links, stage, session, press, controls.inputs, list(tabs.outputs))
    stage.missing(handlers.replay, [press, session], stage, **QUIET)
    stop.click(handlers.stop, None, js=TO_STAGE, **QUIET)  # queue=False: it does not wait for the run it cancels
    return stage, controls.inputs, session
