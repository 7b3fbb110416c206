"""Lays out the links to the page that runs the model in the visitor's own tab, and gives them the form's settings."""

from typing import Any

import gradio as gr

from app.form import CONTROLS
from app.ui.html_component import component
from app.views.safe_json import encode

NAME, SERVED = "tab.html", "here"  # that page, and its folder beside this one, where its service worker answers
FIELDS = ("prompt", "method", "auto", "gamma", "temperature", "seed", "tokens")  # a link's fields that are there, too
TITLE = "Opens a page that runs the model on your own machine, without the queue. It says first what it downloads."
# In the browser alone: the link is for visitors of a server that has much to do.
TELL = "(...values) => { document.dispatchEvent(new CustomEvent('speclens-here', { detail: values })); return []; }"


def anchor(words: str) -> str:
    """Returns a link as HTML. It shows once the engine's status says that there is something to open."""
    address = f'href="{SERVED}/{NAME}" target="_blank" rel="noopener"'
    return f'<a class="sl-tab-link" {address} title="{TITLE}">{words}</a>'


def tab_link() -> gr.HTML:
    """Lays out the link below Run. Its address always has the controls that the tab has, too, and any other that
    differs from its default."""
    controls = [[each.name, None if each.name in FIELDS else each.default, each.only] for each in CONTROLS]
    return component("tab_link", encode(controls), elem_id="tab-link", link=anchor("or in your browser"))


def connect(link: gr.HTML, controls: list[Any]) -> None:
    """Lets the page tell a tab its settings. ``controls``: all of them, in the order of form.NAMES."""
    link.here(None, controls, None, js=TELL, api_visibility="private")
