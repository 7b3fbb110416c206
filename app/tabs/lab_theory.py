"""Theory: what draft length should pay, for any α and any device. Layout and wiring; it runs in the browser."""

import gradio as gr
from gradio.context import Context

from app.components import theory as component
from app.lab.theory import compared
from app.service import Service
from app.session import Session

LEAD = """<p class="sl-lab-lead">A round drafts γ tokens, has the target score all of them at once, and keeps each with
the chance α until the first refusal. Drafting costs c a token, scoring W tokens costs v(W); both are counted in plain
steps, the time the target takes to write one token by itself. Whether drafting pays follows from these four. Move a
slider.</p>"""
QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def theory(service: Service, session: gr.State) -> None:
    gr.HTML(LEAD, apply_default_css=False)
    drawn = component.theory(compared(Session()))
    for tab in _around():  # whichever of them opens this page, the last run is looked at anew
        tab.select(compared, session, drawn, **QUIET)


def _around() -> list[gr.Tab]:
    """The tabs that this is inside of."""
    found, block = [], Context.block
    while block is not None:
        if isinstance(block, gr.Tab):
            found.append(block)
        block = block.parent
    return found
