"""Where the controls stand: the prompt on one side, what it is run with on the other, the rarer ones folded."""

from typing import NamedTuple

import gradio as gr
from gradio.components import Component

from app.components.controls import control
from app.components.live import live
from app.controls import METHODS, NAMES, choices, defaults, described
from app.examples import EXAMPLES
from app.handlers import Handlers
from app.service import Service
from engine.config import AUTO

QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
DICE = "() => Math.floor(Math.random() * 1e5)"
LIMITS = "A run and its baseline: up to {:,} s together. Visitors in the queue: up to {:,}."
NOTE = (
    '<div class="sl-pair-told"><p class="sl-pair-name" aria-hidden="true" hidden></p>'
    '<p class="sl-pair-note" data-kind="quiet" role="status" hidden></p></div>'
)


class Controls(NamedTuple):
    """``widgets``: of every control by name, in the order of controls.NAMES once all are placed."""

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


def settings(service: Service, handlers: Handlers, prompt_box: gr.Textbox, state: gr.HTML) -> Controls:
    """``state``: the chip, which says when the engine can be asked."""
    told, made = described(service.limits), {"prompt": prompt_box}

    def place(name: str, **layout) -> Component:
        made[name] = control(told[name], **layout)
        return made[name]

    titles = {pair.name: pair.title for pair in service.pairs.values()}
    place("pair", choices=choices(titles))  # a name needs the whole width
    note = live("pair-note", NOTE)
    with gr.Row(equal_height=True):
        offered = choices(METHODS, (AUTO, *service.methods(service.pair)))
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
    controls = Controls(made)
    _wire(service, handlers, controls, state, note, dice, reset)
    return controls


def _wire(service: Service, handlers: Handlers, controls: Controls, state, note, dice, reset) -> None:
    made = controls.widgets
    made["auto"].change(lambda on: gr.update(interactive=not on), made["auto"], made["gamma"], **QUIET)
    dice.click(None, None, made["seed"], js=DICE, api_visibility="private")
    start = list(defaults(service.limits).values())
    reset.click(lambda: start, None, controls.inputs, **QUIET)
    follows = [made["method"], made["thinking"], made["precision"], note]
    made["pair"].change(handlers.chosen, controls.some("pair", "method"), follows, **QUIET)
    state.settled(handlers.chosen, controls.some("pair", "method"), follows, **QUIET)
    state.settled(handlers.offered, None, made["pair"], **QUIET)
