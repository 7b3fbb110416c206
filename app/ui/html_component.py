"""Builds the page's own components: a gr.HTML that is drawn once and then fed with text.

A component is an HTML file and a module beside it, below assets/web/. The module exports ``mount(part)``; ``part`` has
``element``, ``props``, ``watch`` and ``trigger`` from gradio. The page loads all modules as one file.

Text of a model or a visitor must never be part of a template: gradio evaluates ``{{…}}`` and ``${…}`` in its own as
code. Such text comes as the component's value, JSON, and the modules write it with textContent alone. So gradio's
template is an empty element; a script puts ours in place once, which also spares the browser compiling each value.
"""

import hashlib
import json
import re
from functools import cache
from string import Template

import gradio as gr

from app.ui import js_bundle
from app.views import statuses
from engine.files import ASSETS

WEB = ASSETS / "web"
PARTS = {  # name → template and module below assets/web/, without .html and .js
    "answer": "lab/answer",
    "charts": "playground/charts",
    "compare": "lab/compare",
    "engine_recipes": "playground/engine_recipes",
    "lesson": "lessons/page/lesson",
    "notice": "lab/notice",
    "own_curve": "lab/own_curve",
    "pair_note": "playground/pair_note",
    "share_dialog": "playground/share_dialog",
    "stage": "player/stage",
    "engine_status": "playground/engine_status",
    "tab_link": "playground/tab_link",
    "table": "lib/table",
    "tree": "player/tree_tab",
    "theory": "lab/theory",
}


def read_asset(name: str) -> str:
    return (WEB / name).read_text(encoding="utf-8")


@cache
def bundle(*modules: str) -> str:
    """Joins the modules and all that they import into one script, which leaves the exports of the modules themselves in
    ``modules`` by path."""
    return js_bundle.bundle(WEB, modules)


def template(part: str, **fields: str) -> str:
    """Fills each ``$name`` of the part's HTML with the field of that name. Raises KeyError for one without."""
    return Template(read_asset(f"{PARTS[part]}.html")).substitute(
        {"look": "", "offer": ""} | fields, legend=statuses.legend()
    )


@cache
def page_script() -> str:
    """Returns a module that exports ``mounts``: each part's function by the part's name."""
    paths = {part: f"{path}.js" for part, path in PARTS.items()}
    mounts = ", ".join(f"{part}: modules['{path}'].mount" for part, path in paths.items())
    return f"{bundle(*paths.values())}\nexport const mounts = {{ {mounts} }};\n"


def script_path() -> str:
    """Returns the script's path. Another script has another path, so that browsers may keep it for good."""
    return f"assets/speclens-{hashlib.sha256(page_script().encode()).hexdigest()[:8]}.js"


def component(part: str, value: str = "", elem_id: str | None = None, **fields: str) -> gr.HTML:
    """Makes a part of the page. It is not a class of its own, because gradio writes a .pyi file beside every
    component class it meets."""
    name = elem_id or part
    html, url = template(part, id=name, **fields), f"new URL('{script_path()}', document.baseURI)"
    events = sorted(set(re.findall(r"\btrigger\(('\w+')", bundle(f"{PARTS[part]}.js"))))
    return gr.HTML(
        value,
        elem_id=name,
        html_template="<div></div>",  # never empty: gradio's default would draw the value
        # gradio 6.31 knows a component's own events by their names in quotes in this text.
        js_on_load=f"element.innerHTML = {json.dumps(html)};  // {' '.join(events)}\n"
        f"import({url}).then(({{ mounts }}) => mounts.{part}({{ element, props, watch, trigger }}));",
        apply_default_css=False,
    )
