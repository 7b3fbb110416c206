"""A gr.HTML that is drawn once and then fed: the template is static and JavaScript writes text into it.

Model text must never meet a template: gradio evaluates ``{{…}}`` and ``${…}`` there as code. These are functions, not
subclasses: gradio writes a .pyi file into the source tree for every component class it meets.
"""

from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).resolve().parents[2] / "assets"


def live(name: str, template: str) -> gr.HTML:
    """``name`` is the element's id and picks assets/NAME.js; ``template`` is our own HTML; the value is JSON text."""
    if "{{" in template or "${" in template:
        raise ValueError("A live template is static; hand the text over as the value.")
    return gr.HTML(
        "",
        elem_id=name,
        html_template=template,
        js_on_load=(ASSETS / f"{name}.js").read_text(encoding="utf-8"),
        apply_default_css=False,
    )
