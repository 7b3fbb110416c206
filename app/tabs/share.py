"""Share and present, wired: a link fills the controls, a run writes the address bar."""

import gradio as gr

from app.components.share import share
from app.controls import described
from app.handlers import Screen
from app.links import label
from app.service import Service
from app.sharing import Sharing

QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def bar(service: Service) -> gr.HTML:
    controls = described(service.limits).values()
    return share({control.name: (label(control), control.advanced) for control in controls})


def connect(shared: gr.HTML, service: Service, screen: Screen, runs: list, controls: list) -> None:
    """``runs``: the events of a run; ``controls``: all of them, in the order of controls.NAMES."""
    handlers = Sharing(service)
    shared.opened(handlers.opened, None, [shared, screen.notice, *controls], **QUIET)
    shared.asked(handlers.link, controls, shared, **QUIET)
    for run in runs:
        run.then(handlers.address, screen.session, shared, **QUIET)
