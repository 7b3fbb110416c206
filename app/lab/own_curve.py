"""Lays out where a visitor gives the v(W) of another machine, and reads it. The browser keeps it, not the server."""

import gradio as gr

from app.ui.html_component import component
from app.views.safe_json import encode
from engine.errors import EngineError
from engine.tools.bench.pass_curve import PassCurve
from engine.tools.servers.curve_reader import read_curve


def lay_out_curve(name: str) -> gr.HTML:
    """Makes the component, whose event ``given`` brings a text. ``name``: its element's id."""
    return component("own_curve", "", name)


def read_text(text: str, at: float | None) -> tuple[str, PassCurve | None, bool]:
    """Returns the component's value, which holds the curve or a sentence on the mistake; the curve, None without one;
    and whether the text was wrong. ``at`` makes each value another, because the browser sees changes alone."""
    if not text.strip():
        return encode({"at": at}), None, False
    try:
        curve = read_curve(text)
    except EngineError as error:
        return encode({"at": at, "error": str(error)}), None, True
    return encode({"at": at, "text": text, **curve.to_dict()}), curve, False


def read_given(event: gr.EventData) -> tuple[str, PassCurve | None, bool]:
    """Reads the text that the component brings, as `read_text` does."""
    return read_text(str(event._data.get("text") or ""), event._data.get("at"))


def show_given(event: gr.EventData) -> str:
    """Returns the component's value, where the curve is used in the browser alone."""
    return read_given(event)[0]
