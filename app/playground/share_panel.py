"""Lays out the share bar and wires it: a link fills the controls."""

import gradio as gr

from app.form import Control, controls_by_name
from app.jobs.service import Service
from app.playground.link_handlers import LinkHandlers
from app.playground.links import label
from app.ui.html_component import component
from app.ui.widgets import QUIET


def bar(service: Service) -> gr.HTML:
    """Lays out two buttons and a dialog that makes a link. The value comes from link_handlers."""
    ticks = "".join(map(_tick, controls_by_name(service.limits).values()))
    return component("share_dialog", elem_id="share", ticks=ticks)


def _tick(control: Control) -> str:
    return f'<label><input type="checkbox" name="hide" value="{control.name}"> {label(control)}</label>'


def connect(
    shared: gr.HTML,
    handlers: LinkHandlers,
    stage: gr.HTML,
    session: gr.State,
    press: gr.State,
    controls: list,
    results: list,
) -> None:
    """Connects the dialog. ``controls``: all of them, in the order of form.NAMES. ``results``: in the order of
    result_handlers.ResultValues."""
    shared.opened(handlers.open_link, press, [shared, stage, session, *controls, *results], **QUIET)
    shared.asked(handlers.link, [session, *controls], shared, **QUIET)
