"""Builds HTML files that open by double-click: no server, no request, nothing installed.

Parts of the live page run in them with values that came once. All that a model or a visitor wrote is JSON in a data
block, and meets textContent alone. The policy in the file's head lets only this script and these styles run, known by
their hashes, forbids every request, and every way from text to HTML.
"""

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from string import Template
from types import MappingProxyType
from typing import Any

from app.ui.html_component import bundle, read_asset, template
from app.views.safe_json import encode

BASE = ("colours.css", "page.css", "offline/page.css")
COMMENT = re.compile(r"/\*.*?\*/\n?", re.DOTALL)  # a comment in CSS
SPACE = re.compile(r"(?<=[:{};,\n])\s+|\s+(?=[{}])")  # breaks and spaces that no rule needs


def document(
    title: str,
    body: str,
    styles: Sequence[str],
    module: str = "",
    data: Any = None,
    rules: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Returns the file's text. ``body`` is HTML, ``styles`` and ``module`` are paths below assets/web/. The module
    reads ``data``, of which ``data["values"]`` is each part's value; without a module the file has no script.
    ``rules``: parts of the policy that replace the usual ones."""
    style = SPACE.sub("", COMMENT.sub("", "\n".join(map(read_asset, (*BASE[:2], *styles, BASE[2])))))
    code = f"(() => {{\n{bundle(module)}\n}})();" if module else ""
    # ASCII without ``<``, so that neither a tag nor a comment can begin in the data.
    blocks = f'<script type="application/json" id="data">{encode(data)}</script>\n<script>{code}</script>'
    fields = {"title": html.escape(title), "body": body, "style": style, "policy": _policy(code, style, rules)}
    return Template(read_asset("offline/frame.html")).substitute(fields, scripts=blocks if module else "")


def heading(links: str, note: str) -> str:
    """Returns the head of a page beside others, as HTML. ``links``: to those; ``note``: a sentence."""
    return f'<header class="sl-heading"><h1>SpecLens</h1><nav class="sl-site">{links}</nav><p>{note}</p></header>'


def mount(part: str, **fields: str) -> str:
    """Returns the element that the module of a ``document`` mounts the part in, as HTML."""
    return f'<div id="{part}">{template(part, id=part, **fields)}</div>'


def _policy(script: str, style: str, more: Mapping[str, str]) -> str:
    rules = {
        "default-src": "'none'",
        "script-src": _hash(script) if script else "'none'",
        "style-src": _hash(style),
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    } | dict(more)
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
