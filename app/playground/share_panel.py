"""Lays out the share bar and wires it: a link fills the controls, a run updates the address bar."""

import gradio as gr

from app.form import Control, described
from app.jobs.service import Service
from app.playground.link_handlers import LinkHandlers
from app.playground.links import label
from app.ui.html_component import component
from app.ui.widgets import QUIET


def bar(service: Service) -> gr.HTML:
    """Two buttons and a dialog that makes a link. The value comes from link_handlers."""
    ticks = "".join(map(_tick, described(service.limits).values()))
    return component("share_dialog", elem_id="share", ticks=ticks)


def _tick(control: Control) -> str:
    rare = " data-advanced" if control.advanced else ""
    return f'<label><input type="checkbox" name="hide" value="{control.name}"{rare}> {label(control)}</label>'


def connect(shared: gr.HTML, service: Service, notice: gr.HTML, session: gr.State, runs: list, controls: list) -> None:
    """``runs``: the events that end a run; ``controls``: all of them, in the order of form.NAMES."""
    handlers = LinkHandlers(service)
    shared.opened(handlers.opened, None, [shared, notice, *controls], **QUIET)
    shared.asked(handlers.link, controls, shared, **QUIET)
    for run in runs:
        run.then(handlers.address, session, shared, **QUIET)
