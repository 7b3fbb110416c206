"""The Lessons tab: lessons beside a player, and a way from each to the playground."""

import gradio as gr

from app.components.lesson import lesson
from app.learning import Learning, contents
from app.service import Service

QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def lessons(service: Service, tabs: gr.Tabs, above: gr.HTML, controls: list) -> None:
    """``above``: the playground's notice; ``controls``: all of them, in the order of controls.NAMES."""
    shown = lesson(contents())
    filled = shown.live(Learning(service).live, None, [above, *controls], **QUIET)
    filled.then(lambda: gr.Tabs(selected="playground"), None, tabs, **QUIET)
