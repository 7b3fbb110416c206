"""The banner above the results. The value is views.notice; its text may quote the visitor, so it is only ever text."""

import gradio as gr

from app.ui.html_component import component


def notice(name: str = "notice", value: str = "") -> gr.HTML:
    """``name``: the element's id; the playground's is plainly "notice"."""
    banner = component("notice", value, name)
    # Must be queued, because only a queued event reopens the lost stream; retried, because it can be lost too.
    retried = {"concurrency_limit": None, "trigger_mode": "multiple"}
    banner.unheard(lambda: None, None, None, show_progress="hidden", api_visibility="private", **retried)
    return banner
