"""Lays out the controls of a run: the prompt, the settings, and the rarer settings folded."""

from typing import NamedTuple

import gradio as gr
from gradio.components import Component

from app.form import EXAMPLES, METHOD_LABELS, NAMES, choices, defaults, described
from app.jobs.service import Service
from app.playground.pair_handlers import PairHandlers
from app.ui.html_component import component
from app.ui.widgets import QUIET, control
from engine.config import AUTO

DICE = "() => Math.floor(Math.random() * 1e5)"
LIMITS = "A run and its baseline: up to {:,} s together. Visitors in the queue: up to {:,}."


class Controls(NamedTuple):
    """``widgets``: each control's component by name."""

    widgets: dict[str, Component]

    @property
    def inputs(self) -> list[Component]:
        return [self.widgets[name] for name in NAMES]

    def some(self, *names: str) -> list[Component]:
        return [self.widgets[name] for name in names]


def prompt(service: Service) -> gr.Textbox:
    box = control(described(service.limits)["prompt"])
    with gr.Row(elem_classes="sl-examples"):
        for name, text in EXAMPLES.items():
            example = gr.Button(name, size="sm", variant="secondary", min_width=60)
            example.click(lambda text=text: text, None, box, **QUIET)
    return box


def settings(service: Service, prompt_box: gr.Textbox, state: gr.HTML) -> Controls:
    """``state``: the status chip, whose `settled` event fires once the engine can answer questions."""
    specs, widgets = described(service.limits), {"prompt": prompt_box}

    def place(name: str, **layout) -> Component:
        widgets[name] = control(specs[name], **layout)
        return widgets[name]

    place("pair", choices=choices(service.titles))  # a name needs the whole width
    note = component("pair_note", elem_id="pair-note")
    with gr.Row(equal_height=True):
        offered = choices(METHOD_LABELS, (AUTO, *service.methods(service.pair)))
        place("method", choices=offered, min_width=300, scale=7)
        place("seed", scale=2, min_width=90)
        place("tokens", scale=2, min_width=90)
    with gr.Row(equal_height=True):
        with gr.Row(elem_classes="sl-gamma", equal_height=True, scale=3):
            place("auto", info=None, scale=0, min_width=0)
            place("gamma", interactive=False)
        place("temperature", scale=2, min_width=220)
    with gr.Accordion("More settings", open=False, elem_id="more"):
        with gr.Row(equal_height=True):
            place("form", min_width=160)
            place("thinking", min_width=160)
        place("system")
        for name in ("top_k", "top_p", "min_p", "repetition_penalty"):
            place(name)
        place("precision", visible=False)
    with gr.Row(elem_classes="sl-small-actions"):
        dice = gr.Button("New seed", size="sm", elem_id="dice", min_width=90)
        reset = gr.Button("Reset all", size="sm", elem_id="reset", min_width=90)
        limits = LIMITS.format(service.limits.seconds, service.limits.queue)
        gr.HTML(f'<p class="sl-limits">{limits}</p>', apply_default_css=False)
    controls = Controls(widgets)
    _wire(service, controls, state, note, dice, reset)
    return controls


def _wire(service: Service, controls: Controls, state, note, dice, reset) -> None:
    widgets, handlers = controls.widgets, PairHandlers(service)
    widgets["auto"].change(lambda on: gr.update(interactive=not on), widgets["auto"], widgets["gamma"], **QUIET)
    dice.click(None, None, widgets["seed"], js=DICE, api_visibility="private")
    start = list(defaults(service.limits).values())
    reset.click(lambda: start, None, controls.inputs, **QUIET)
    follows = [widgets["method"], widgets["thinking"], widgets["precision"], note]
    widgets["pair"].change(handlers.select, controls.some("pair", "method"), follows, **QUIET)
    state.settled(handlers.select, controls.some("pair", "method"), follows, **QUIET)
    state.settled(handlers.list_pairs, None, widgets["pair"], **QUIET)
