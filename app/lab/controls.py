"""Lays out the controls that several experiments have, and reads their values."""

import re
from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.context import Context

from app.form import choices, controls_by_name
from app.jobs.service import Service
from app.ui.widgets import control
from app.views.figures import TITLES
from engine.errors import BadInput


def whole_number(value: Any, label: str, low: int | None = None, high: int | None = None) -> int:
    """Returns a control's value; browsers send 4 as 4.0. Raises BadInput that names the control."""
    if not isinstance(value, int | float | str) or not re.fullmatch(r"-?\d{1,15}(\.0)?", str(value)):
        raise BadInput(f"{label} must be a whole number.")
    number = int(float(value))
    if low is not None and high is not None and not low <= number <= high:
        raise BadInput(f"{label} is {number:,}; choose from {low} to {high:,}.")
    return number


def title_choices(methods: Sequence[str]) -> list[tuple[str, str]]:
    """Returns (title, name) for a list."""
    return [(TITLES.get(method, method), method) for method in methods]


def fold(name: str, what: str) -> gr.Accordion:
    """Lays out the form of an experiment, folded above its results; ``what``: what can be chosen there."""
    return gr.Accordion(f"Choose {what}", open=False, elem_id=f"{name}-form", elem_classes="sl-lab-form")


def pair_control(service: Service, name: str, **layout: Any) -> Any:
    """Lays out the choice of a pair. ``name``: begins the element's id."""
    pair, titles = controls_by_name(service.limits)["pair"], choices(service.offer.titles)
    return control(pair, choices=titles, elem_id=f"{name}-pair", min_width=220, **layout)


def methods_control(name: str, methods: Sequence[str], ticked: Sequence[str], info: str) -> Any:
    """Lays out the choice of methods. ``name`` is used as in `pair_control`."""
    choice = {"choices": title_choices(methods), "value": [*ticked], "label": "Methods", "info": info}
    return gr.CheckboxGroup(**choice, elem_id=f"{name}-methods", min_width=220)


def enclosing_tabs() -> list[gr.Tab]:
    """Returns the tabs around the part of the page that is being laid out, the nearest first."""
    tabs, block = [], Context.block
    while block is not None:
        if isinstance(block, gr.Tab):
            tabs.append(block)
        block = block.parent
    return tabs
