"""Builds the page's own components: a gr.HTML that is drawn once and then fed with text.

A component is an HTML file and scripts of assets/web/. Its scripts run as one function, in gradio and in a saved run
alike, so they share one scope: what one file declares at its top level, the files after it can use, and none may
declare again. The function has ``element``, ``props``, ``watch`` and ``trigger`` from gradio.

Text of a model or a visitor must never be part of a template: gradio evaluates ``{{…}}`` and ``${…}`` in its own as
code. Such text comes as the component's value, JSON, and the scripts write it with textContent alone. So gradio's
template is an empty element; the script puts ours in place once, which also spares the browser compiling each value.
"""

import json
from string import Template
from typing import NamedTuple

import gradio as gr

from app.views import statuses
from engine.files import ASSETS

WEB = ASSETS / "web"


class Part(NamedTuple):
    """Paths below assets/web/; the scripts in the order in which they run, all after lib/dom.js."""

    template: str
    scripts: tuple[str, ...]


def _scripts(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.js" for name in names)


_TOKENS = (
    *_scripts("lib", "statuses", "format", "ndjson_reader", "virtual_rows"),
    *_scripts("player", "timeline", "sentences", "methods", "tooltip", "token_chip", "row_navigation"),
)
_PLAYER = (
    *_TOKENS,
    *_scripts("player", "probabilities", "branch", "rounds_view", "output_view", "distribution_bars", "block"),
    *_scripts("player", "siblings", "inspector", "playback", "shortcuts", "strip", "status", "captions", "lane_heads"),
    "player/player.js",
)
_LESSONS = (
    "playground/copy_button.js",
    *_scripts("lessons", "markup", "questions", "widgets", "devices", "roofline", "temperature", "overlap", "duel"),
    *_scripts("lessons", "rejection_demo", "curve", "memory", "batching", "merges", "tokenizer_mismatch"),
    *_scripts("lessons", "float_sums", "cost", "grow_tree", "recipe", "acceptance_log", "pass_places", "progress"),
    *_scripts("lessons", "guess_words", "kinds_of_text", "ruler"),
    "lessons/playground_hint.js",
    *_scripts("lessons", "lesson_player", "lesson"),
)


def _beside(*names: str) -> Part:
    """``names``: scripts without .js; the template lies beside the last one."""
    return Part(f"{names[-1]}.html", tuple(f"{name}.js" for name in names))


PARTS = {
    "charts": _beside("playground/charts"),
    "compare": Part("lab/compare.html", (*_TOKENS, "lab/compare_cells.js", "lab/compare.js")),
    "engine_recipes": _beside("playground/copy_button", "playground/engine_recipes"),
    "lesson": Part("lessons/lesson.html", (*_PLAYER, "lib/speedup_model.js", *_LESSONS)),
    "notice": _beside("playground/heartbeat", "playground/notice"),
    "pair_note": _beside("playground/pair_note"),
    "share_dialog": _beside(
        "playground/copy_button",
        "playground/url_query",
        "playground/prompt",
        "playground/drawer",
        "playground/share_dialog",
    ),
    "stage": Part("player/stage.html", (*_PLAYER, "playground/heartbeat.js", "player/gradio_mount.js")),
    "status_chip": _beside("playground/status_chip"),
    "table": _beside("lib/table"),
    "tree": Part("player/tree_tab.html", (*_TOKENS, "player/tree_tab.js")),
    "theory": _beside("lib/speedup_model", "lib/svg_chart", "lab/theory_charts", "lab/theory"),
}


def read(name: str) -> str:
    return (WEB / name).read_text(encoding="utf-8")


def template(part: str, **fields: str) -> str:
    """The part's HTML with each ``$name`` replaced by the field of that name; raises KeyError for one without."""
    return Template(read(PARTS[part].template)).substitute({"look": ""} | fields, legend=statuses.legend())


def script(part: str) -> str:
    """The body of the part's one function."""
    return "\n".join(map(read, ("lib/dom.js", *PARTS[part].scripts))).replace("STATUS_TABLE", statuses.table(), 1)


def component(part: str, value: str = "", elem_id: str | None = None, **fields: str) -> gr.HTML:
    """A part on the page. Not a subclass, because gradio writes a .pyi file beside every component class it meets."""
    name = elem_id or part
    html = template(part, id=name, **fields)
    return gr.HTML(
        value,
        elem_id=name,
        html_template="<div></div>",  # never empty: gradio's default would draw the value
        js_on_load=f"element.innerHTML = {json.dumps(html)};\n{script(part)}",
        apply_default_css=False,
    )
