"""Renders a run as one HTML file that replays by double-click: no server, no request, nothing installed.

It is the page's own stage with a recorded run on it. All that a model or a visitor wrote is
JSON in a data block, and meets textContent alone. The policy in the file's head lets only this script and these styles
run, known by their hashes, forbids every request, and every way from text to HTML.
"""

import base64
import hashlib
import json
from string import Template

from app.ui.html_component import read, script, template
from app.views import player_feed, run_facts
from app.views.safe_json import encode
from engine.trace.trace import Trace

STYLES = ("page.css", "playground/results.css", "player/player.css", "player/stage.css", "offline/page.css")
PARTS = {"stage": "stage"}  # the element's id → its part


def page(run: Trace, baseline: Trace | None = None) -> str:
    """The file's text. A trace of more than player_feed.LEAN tokens comes without its candidates, as on the page."""
    style, code = "\n".join(map(read, STYLES)), _script()
    fields = {"style": style, "script": code, "policy": _policy(code, style), "data": _data(run, baseline)}
    fields |= {name: template(part, id=name, look="sl-stage") for name, part in PARTS.items()}
    return Template(read("offline/page.html")).substitute(fields)


def _data(run: Trace, baseline: Trace | None) -> str:
    """ASCII JSON without ``<``, so that neither a tag nor a comment can begin in it."""
    values = {"stage": player_feed.replay("file", run, baseline)}
    return encode({"values": values, "facts": run_facts.facts(run), "prompt": run_facts.prompt(run)})


def _script() -> str:
    """Each part in a function of its own, as gradio would call it; offline/page.js defines ``part``."""
    parts = (
        f"part({json.dumps(name)}, (element, props, watch, trigger) => {{\n{script(part)}\n}});"
        for name, part in PARTS.items()
    )
    return "\n".join([read("offline/page.js"), *parts])


def _policy(script: str, style: str) -> str:
    rules = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
