"""The widget of a control, made from its description; its element's id is the control's name."""

import gradio as gr
from gradio.components import Component

from app.controls import Control, choices


def control(told: Control, **layout) -> Component:
    """``layout`` goes to gradio as it is: scale, min_width, visible, and what else a place on the page asks for."""
    common = {"label": told.label, "info": told.hint, "elem_id": told.name} | layout
    match told.kind:
        case "text":
            return gr.Textbox(told.default, lines=told.lines, max_lines=max(16, told.lines), **common)
        case "switch":
            return gr.Checkbox(told.default, **common)
        case "slider":
            return gr.Slider(told.low, told.high, told.default, step=told.step, **common)
        case "number":
            return gr.Number(told.default, precision=0, **common)
        case "choice" if "choices" in layout or len(told.choices) > 3:
            return gr.Dropdown(value=told.default, **{"choices": choices(told.choices or {})} | common)
        case "choice":
            return gr.Radio(choices(told.choices), value=told.default, **common)
    raise ValueError(f"no widget for a control of kind {told.kind!r}")
