"""Wires an experiment's components: the events of a press, Stop, and the form, which the browser keeps for a reload."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from app.lab.experiment import Experiment
from app.ui.widgets import QUIET, SKIP, streams

# Stop is disabled at the end, which would drop the keyboard's focus.
TO_TAB = "() => { document.querySelector('#lab-tabs [role=tab][aria-selected=true]')?.focus(); return []; }"
# kept_form.js listens.
KEEP = "(...values) => { document.dispatchEvent(new CustomEvent('speclens-form', { detail: { id: ID, values } })); }"


@dataclass(frozen=True)
class Wiring:
    """An experiment's components. ``ends``: what ``experiment.end`` sets: Run, Stop, the files, and maybe more;
    ``layout``: what ``experiment.refill`` sets beside the form."""

    experiment: Experiment
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    state: gr.State
    ends: Sequence[Any]
    layout: Sequence[Any] = ()

    def __post_init__(self):
        self.ends[1].click(self.experiment.stop, None, js=TO_TAB, **QUIET)
        restored = [*self.form, *self.layout, self.outputs[-1]]
        self.outputs[0].reloaded(self.restore, None, restored, **QUIET)
        self.keep_form(partial(gr.on, [self.ends[0].click, *(each.change for each in self.form)]))

    @property
    def form(self) -> list[Any]:
        """The inputs that the visitor sets."""
        return [each for each in self.inputs if not isinstance(each, gr.State)]

    def restore(self, event: gr.EventData) -> Any:
        """Returns the form as the browser kept it, unless the page has another form by now."""
        values = event._data["values"]
        return self.experiment.restore(values) if len(values) == len(self.form) else SKIP

    def keep_form(self, listen: Callable) -> None:
        """Keeps the form in the browser whenever ``listen`` says so, for a reload of the page."""
        keep = KEEP.replace("ID", f"'{self.outputs[0].elem_id}'")
        listen(None, self.form, None, js=keep, api_visibility="private")

    def connect(self, listen: Callable, handler: Callable) -> None:
        """Wires a press. ``listen``: such as ``button.click``; ``handler`` streams the outputs."""
        most = self.experiment.service.runs.most_requests
        limit = {"concurrency_id": type(self.experiment).__name__} | streams(most)
        buttons = list(self.ends[: 2 + self.experiment.FILES])
        pressed = listen(self.experiment.begin, self.state, buttons, **QUIET)
        streamed = pressed.then(handler, [self.state, *self.inputs], list(self.outputs), **limit)
        streamed.success(self.experiment.end, self.state, list(self.ends), **QUIET)
        streamed.failure(self.experiment.end_lost, self.state, list(self.ends), **QUIET)
