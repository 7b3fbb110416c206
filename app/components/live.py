"""A gr.HTML that is drawn once and then fed: a static template, and JavaScript that writes text into it.

Model text must never meet a gradio template: ``{{…}}`` and ``${…}`` are evaluated there as code. So gradio's own
template is a placeholder, ours is put in place once by JavaScript, and what changes comes as the value, JSON text.
(It also spares the browser from compiling the template anew at every value.) These are functions, not subclasses:
gradio writes a .pyi file into the source tree for every component class it meets.
"""

import json
from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).resolve().parents[2] / "assets"


def live(name: str, template: str, scripts: list[str] | None = None, value: str = "") -> gr.HTML:
    """``name`` is the element's id; ``template`` our own HTML; ``scripts`` of assets/ run in order as one function
    (default: NAME.js), with ``element``, ``props`` and ``watch`` as gradio gives them."""
    sources = [(ASSETS / script).read_text(encoding="utf-8") for script in scripts or [f"{name}.js"]]
    return gr.HTML(
        value,
        elem_id=name,
        html_template="<div></div>",  # never empty: gradio's default would draw the value
        js_on_load="\n".join([f"element.innerHTML = {json.dumps(template)};", *sources]),
        apply_default_css=False,
    )
