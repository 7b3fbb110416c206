"""Describes the form of an experiment as rows of fields, from which its widgets, its values and its refusals come."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import gradio as gr

from app.form import Control, choices, controls_by_name, plausible
from app.jobs.service import Service
from app.ui.widgets import control
from app.views.figures import TITLES
from engine.errors import BadInput


@dataclass(frozen=True)
class Field(Control):
    """A control in its row. ``kind``: also "boxes", any of which may be ticked, and "radio". ``empty``: the
    refusal of a form without a tick, where one is needed; ``layout``: what else Gradio is to know of the widget."""

    kind: str
    choices: Mapping[Any, str] = field(default_factory=dict)
    empty: str = ""
    layout: Mapping[str, Any] = field(default_factory=dict)


def slider(name: str, label: str, hint: str, value: float, low: float, high: float, step=1, **layout) -> Field:
    return Field(name, label, hint, value, "slider", low, high, step, layout=layout)


def boxes(name: str, label: str, hint: str, value: list, choices: Mapping, empty: str = "", **layout) -> Field:
    """Describes boxes. ``empty``: as in Field."""
    return Field(name, label, hint, value, "boxes", choices=choices, empty=empty, layout=layout)


def dropdown(name: str, label: str, hint: str, value: str, choices: Sequence, **layout) -> Field:
    """Describes a list. ``choices``: (words, value) of each."""
    return Field(name, label, hint, value, "choice", layout={"choices": choices} | layout)


def text(name: str, label: str, hint: str, value: str = "", lines: int = 1, **layout) -> Field:
    return Field(name, label, hint, value, "text", lines=lines, layout=layout)


def place(described: Control, **layout: Any) -> Field:
    """Returns a control of the playground as a field."""
    return Field(**{each.name: getattr(described, each.name) for each in fields(Control)}, layout=layout)


def pair_field(service: Service, **layout: Any) -> Field:
    titles = choices(service.offer.titles)
    return place(controls_by_name(service.limits)["pair"], choices=titles, min_width=220, **layout)


def methods_field(methods: Sequence[str], ticked: Sequence[str], hint: str, empty: str = "") -> Field:
    known = {"choices": title_choices(methods), "min_width": 220}
    return Field("methods", "Methods", hint, [*ticked], "boxes", empty=empty, layout=known)


def title_choices(methods: Sequence[str]) -> list[tuple[str, str]]:
    """Returns (title, name) for a list."""
    return choices(TITLES, methods)


def widget(described: Field, name: str) -> Any:
    """Makes the widget of a field. ``name``: begins its element's id."""
    layout = {"elem_id": f"{name}-{described.name}", "info": described.hint or None} | dict(described.layout)
    if described.kind not in ("boxes", "radio"):
        return control(described, **layout)
    kind = gr.CheckboxGroup if described.kind == "boxes" else gr.Radio
    words = {"label": described.label, "choices": choices(described.choices or {})}
    return kind(value=described.default, **words | layout)


def read(form: Sequence[Field], values: Sequence) -> dict[str, Any]:
    """Returns the values of a form by name: whole numbers within their bounds, boxes in their order. Raises BadInput
    that names the control."""
    return {each.name: _value(each, value) for each, value in zip(form, values, strict=True)}


def _value(described: Field, value: Any) -> Any:
    if described.kind == "boxes":
        value, known = value or (), described.choices
        if described.empty and not value:
            raise BadInput(described.empty)
        if known and not {*value} <= {*known}:
            raise BadInput(f"{described.label}: choose among the boxes.")
        return tuple(each for each in known if each in value) if known else tuple(value)
    if described.kind == "radio":
        if value not in (described.choices or ()):
            raise BadInput(f"{described.label}: choose one of the list.")
        return value
    value = plausible(described, value)
    if described.kind in ("slider", "number") and described.step == 1:
        return whole_number(value, described.label, described.low, described.high)
    return value


def whole_number(value: Any, label: str, low: int | None, high: int | None) -> int:
    """Returns a control's value; browsers send 4 as 4.0. Raises BadInput that names the control."""
    if not isinstance(value, int | float | str) or not re.fullmatch(r"-?\d{1,15}(\.0)?", str(value)):
        raise BadInput(f"{label} must be a whole number.")
    number = int(float(value))
    if low is not None and high is not None and not low <= number <= high:
        raise BadInput(f"{label} is {number:,}; choose from {low} to {high:,}.")
    return number
