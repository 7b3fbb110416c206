"""Fills the form with the settings of a run that was not made from it: from a link or a file, or the recorded one."""

from collections.abc import Mapping
from typing import Any

import gradio as gr

from app.form import Control, control_values, controls_by_name
from app.jobs.service import Service
from app.ui.method_choices import run_methods
from engine.config import AUTO, constraint_methods
from engine.errors import BadInput
from engine.trace.branch import config_of
from engine.trace.trace import Trace


def values_of(run: Trace, service: Service) -> dict[str, Any]:
    """Returns the value of every control for a recorded run. Raises BadInput if it cannot run on this server."""
    values, controls = control_values(config_of(run)), controls_by_name(service.limits)
    if values["pair"] not in service.offer.pairs:
        raise BadInput("Its models are not on this server.")
    if values["method"] not in (AUTO, *service.offer.methods(values["pair"]), *constraint_methods()):
        raise BadInput("Its method is not on this server.")
    for name, control in controls.items():
        if not _fits(control, values[name], service.limits.prompt_chars):
            raise BadInput(f"{control.label} is outside this server's limits.")
    return values


def _fits(control: Control, value: Any, prompt_chars: int) -> bool:
    if control.kind == "text":
        return len(value) <= prompt_chars
    return (control.low is None or value >= control.low) and (control.high is None or value <= control.high)


def update(name: str, values: Mapping[str, Any], service: Service) -> Any:
    """Returns the update that gives a control its value of ``values``. A method comes with the choices of its pair."""
    more = {"choices": run_methods(service, values["pair"])} if name == "method" else {}
    return gr.update(value=values[name], **more)
