"""Shows the banner above the results. Its value is views.notice, which may quote the visitor: it is only ever text."""

import gradio as gr

from app.ui.html_component import component


def notice(name: str, value: str = "") -> gr.HTML:
    """Makes the component of a notice. ``name``: the element's id."""
    return keep_alive(component("notice", value, name))


def keep_alive(shown: gr.HTML) -> gr.HTML:
    """Answers the events of heartbeat.js. Queued, because only a queued event reopens the lost stream; retried, because
    it can be lost too."""
    retried = {"concurrency_limit": None, "trigger_mode": "multiple"}
    shown.unheard(lambda: None, None, None, show_progress="hidden", api_visibility="private", **retried)
    return shown
