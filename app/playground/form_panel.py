"""Lays out the controls of a run: the prompt line, a row of quick controls, and a drawer with the others."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from app.form import CONTROLS, FREE, NAMES, Control, choices, defaults
from app.jobs.service import Service
from app.playground.constraint_note import constraint_note
from app.playground.pair_handlers import PairHandlers
from app.playground.tab_link import tab_link
from app.ui.html_component import component
from app.ui.method_choices import run_methods
from app.ui.widgets import QUIET, control
from lessons.constraint_examples import CONSTRAINT_EXAMPLES
from lessons.examples import EXAMPLES

EXAMPLE_BUTTONS = ("json_schema", "regex", "choice")  # constraints that one click fills in
DICE = "() => Math.floor(Math.random() * 1e5)"
LIMITS = "A run and its baseline: up to {:,} s together. Visitors in the queue: up to {:,}."


class Controls(NamedTuple):
    """``widgets``: each control's component by name; ``examples``: a button for each; ``note``: words about the chosen
    models. ``own``: a field for a model that is not listed, its button and its note; None where visitors may name none.
    ``constraints``: a button for each example of a constraint; ``constraint_note``: why one cannot be used."""

    widgets: dict[str, Any]
    examples: dict[str, gr.Button]
    note: Any
    dice: gr.Button
    reset: gr.Button
    own: tuple[gr.Textbox, gr.Button, Any] | None
    constraints: dict[str, gr.Button]
    constraint_note: Any

    @property
    def inputs(self) -> list[Any]:
        return [self.widgets[name] for name in NAMES]

    @property
    def of_the_pair(self) -> list[Any]:
        """What depends on the pair, in the order of PairOptions."""
        return [*self.some("method", "thinking", "precision"), self.note]

    def some(self, *names: str) -> list[Any]:
        return [self.widgets[name] for name in names]


def prompt_line(specs: Mapping[str, Control]) -> tuple[gr.Textbox, gr.Button, gr.Button, gr.HTML]:
    """Lays out the prompt, Run, Stop, and the link to the visitor's own engine. ``specs``: every control by name, with
    its value at the start."""
    with gr.Row(elem_classes="sl-ask"):
        box = control(specs["prompt"])
        run = gr.Button("Run", variant="primary", elem_id="run", scale=0, min_width=112)
        stop = gr.Button("Stop", variant="secondary", elem_id="stop", interactive=False, scale=0, min_width=64)
        link = tab_link()
    return box, run, stop, link


def quick_row(
    service: Service, specs: Mapping[str, Control], prompt: gr.Textbox
) -> tuple[dict[str, Any], dict[str, gr.Button]]:
    """Lays out the controls that are changed most, each component by name, and a button for each example."""
    with gr.Row(elem_id="quick"):
        with gr.Row(elem_classes="sl-examples"):
            examples = {name: gr.Button(name, size="sm", variant="secondary", min_width=40) for name in EXAMPLES}
            gr.Button("Your text", size="sm", variant="secondary", min_width=40, elem_id="own-text")  # prompt.js
        method = control(specs["method"], choices=run_methods(service, service.offer.pair), info=None)
        gamma = control(specs["gamma"], label="γ", info=None, interactive=not specs["auto"].default)
        auto = control(specs["auto"], info=None)
        temperature = control(specs["temperature"], info=None)
        gr.Button("Settings", size="sm", elem_id="settings", min_width=40)
    widgets = {"prompt": prompt, "method": method, "gamma": gamma, "auto": auto, "temperature": temperature}
    return widgets, examples


def _example(service: Service, name: str, pair: str) -> list:
    """Returns an example's prompt, method, whether γ is auto, temperature, and no constraint."""
    example = EXAMPLES[name]
    return [example.prompt, example.method(service.offer.methods(pair)), True, example.temperature, FREE]


def drawer(
    service: Service, specs: Mapping[str, Control], quick: tuple[dict[str, Any], dict[str, gr.Button]]
) -> Controls:
    """Lays out all other controls, closed until Settings is pressed (drawer.js). Returns every control."""
    widgets, start = dict(quick[0]), {name: spec.default for name, spec in specs.items()}
    with gr.Column(elem_id="drawer"):
        widgets["pair"] = control(specs["pair"], choices=choices(service.offer.titles))
        note = component("pair_note", elem_id="pair-note")
        own = _own_model() if service.offer.takes_own_models else None
        for name in NAMES:
            if name not in widgets:
                widgets[name] = control(specs[name], visible=name != "precision" and specs[name].applies_to(start))
            if name == "constraint":
                buttons = _constraint_examples()
            if name == "compact_json":
                why = component("pair_note", elem_id="constraint-note")
        with gr.Row(elem_classes="sl-small-actions"):
            dice = gr.Button("New seed", size="sm", elem_id="dice", min_width=90)
            reset = gr.Button("Reset settings", size="sm", elem_id="reset", min_width=90)
        limits = LIMITS.format(service.limits.seconds, service.limits.queue)
        gr.HTML(f'<p class="sl-limits">{limits}</p>', apply_default_css=False)
    return Controls(widgets, quick[1], note, dice, reset, own, buttons, why)


def _constraint_examples() -> dict[str, gr.Button]:
    with gr.Row(elem_classes="sl-small-actions", elem_id="constraint-examples"):
        return {kind: gr.Button(CONSTRAINT_EXAMPLES[kind].name, size="sm", min_width=60) for kind in EXAMPLE_BUTTONS}


def _own_model() -> tuple[gr.Textbox, gr.Button, Any]:
    with gr.Row(elem_id="own-model"):
        name = gr.Textbox(
            label="A model of your own",
            placeholder="A .gguf file, a folder, or OWNER/NAME on the hub",
            elem_id="own-name",
            scale=3,
        )
        check = gr.Button("Check", size="sm", elem_id="own-check", scale=0, min_width=90)
    return name, check, component("pair_note", elem_id="own-note")


def wire(service: Service, controls: Controls, state: gr.HTML) -> None:
    """Connects the controls. ``state``: the engine's status, whose `settled` event fires once the engine can answer."""
    widgets, handlers = controls.widgets, PairHandlers(service)
    widgets["auto"].change(lambda on: gr.update(interactive=not on), widgets["auto"], widgets["gamma"], **QUIET)
    for name in ("method", "acceptance", "constraint"):
        _show_dependents(controls, name)
    for name, button in controls.examples.items():
        filled = controls.some("prompt", "method", "auto", "temperature", "constraint")
        button.click(partial(_example, service, name), widgets["pair"], filled, **QUIET)
    _wire_constraint(service, controls)
    controls.dice.click(None, None, widgets["seed"], js=DICE, api_visibility="private")
    start = {name: value for name, value in defaults(service.limits).items() if name != "prompt"}
    controls.reset.click(lambda: list(start.values()), None, controls.some(*start), **QUIET)
    if controls.own:
        name, check, answer = controls.own
        gr.on([check.click, name.submit], handlers.add_own, name, [widgets["pair"], answer], **QUIET)
    state.settled(handlers.list_pairs, None, widgets["pair"], **QUIET)
    for event in (widgets["pair"].change, state.settled):
        event(handlers.select, controls.some("pair", "method"), controls.of_the_pair, **QUIET)


def example_buttons(controls: Controls) -> Iterator[tuple[str, gr.Button]]:
    """Yields the prompt that each example fills in, and its button."""
    for examples, buttons in ((EXAMPLES, controls.examples), (CONSTRAINT_EXAMPLES, controls.constraints)):
        yield from ((examples[name].prompt, button) for name, button in buttons.items())


def _wire_constraint(service: Service, controls: Controls) -> None:
    """Wires the constraint. An example fills in its prompt, too. A constraint is checked once its field is left, and
    after any change of what its note depends on."""
    checked = {"fn": partial(constraint_note, service), "inputs": controls.inputs, "outputs": controls.constraint_note}
    for kind, button in controls.constraints.items():
        example, filled = CONSTRAINT_EXAMPLES[kind], controls.some("prompt", "constraint", kind)
        click = button.click(partial(list, (example.prompt, kind, example.text)), None, filled, **QUIET)
        click.then(**checked, **QUIET)  # the kind, and with it the note, may be the one before
    left = [controls.widgets[name].blur for name in CONSTRAINT_EXAMPLES]
    changed = [controls.widgets[name].change for name in ("constraint", "compact_json", "pair")]
    gr.on([*left, *changed], **checked, trigger_mode="always_last", **QUIET)


def _show_dependents(controls: Controls, name: str) -> None:
    """Shows the controls that count only with one value of this one, and hides them with any other. In the browser,
    because answers of the server to two changes may come in the wrong order."""
    dependents = [spec for spec in CONTROLS if spec.only and spec.only[0] == name]
    values = json.dumps([spec.only[1] for spec in dependents if spec.only])
    update = f"(chosen) => {values}.map((value) => ({{ __type__: 'update', visible: chosen === value }}))"
    outputs = controls.some(*(spec.name for spec in dependents))
    controls.widgets[name].change(None, controls.widgets[name], outputs, js=update, api_visibility="private")
