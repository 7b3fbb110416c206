"""A run as one HTML file that replays by double-click: no server, no request, nothing installed.

It is the page's own player, race and figures with a recorded run beside them. All that a model or a visitor wrote is
JSON in a data block, and meets textContent alone. The policy in the file's head lets only this script and these styles
run, known by their hashes, forbids every request, and every way from text to HTML.
"""

import base64
import hashlib
import json

from app.components import race as race_part
from app.components import ribbon as ribbon_part
from app.components import tiles as tiles_part
from app.components.live import ASSETS
from app.views import facts, race, ribbon, summary
from app.views.encode import encode
from engine.trace import Trace

STYLES = ["page.css", "results.css", "player.css", "charts.css", "offline/page.css"]
PARTS = {"ribbon": ribbon_part.SCRIPTS, "tiles": ["tiles.js"], "race": ["race.js"]}
HEADING = """
<header class="sl-heading">
<h1>SpecLens</h1>
<p>A recorded run of speculative decoding: a draft guesses several tokens ahead and the model checks them all in one
pass. Step through every guess, the model's verdict on it, and the numbers behind it. Nothing is computed here, and
nothing leaves this file.</p>
</header>
"""
FACTS = """
<section class="sl-panel sl-facts" aria-labelledby="sl-facts-title">
<h2 id="sl-facts-title">What ran</h2>
<dl></dl>
<h3>Prompt</h3>
<pre class="sl-facts-prompt" tabindex="0" role="region" aria-label="Prompt"></pre>
</section>
"""


def page(run: Trace, baseline: Trace | None = None) -> str:
    """The file's text. A trace of more than views.ribbon.LEAN tokens comes without its candidates, as on the page."""
    style, script = _styles(), _script()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>SpecLens: a recorded run</title>
<style>{style}</style>
</head>
<body class="gradio-container">
{HEADING}
<noscript><p>This file plays a recorded run with JavaScript, which is switched off here.</p></noscript>
<div id="tiles">{tiles_part.TEMPLATE}</div>
<div id="ribbon">{ribbon_part.TEMPLATE}</div>
<div id="race">{race_part.TEMPLATE}</div>
{FACTS}
<script type="application/json" id="run">{_data(run, baseline)}</script>
<script>{script}</script>
</body>
</html>
"""


def _data(run: Trace, baseline: Trace | None) -> str:
    """ASCII JSON in which no ``<`` stands, so neither a tag nor a comment can begin in it."""
    values = {
        "ribbon": ribbon.replay("file", run, baseline),
        "tiles": summary.tiles(run, baseline, recorded=True),
        "race": race.race(run, baseline),
    }
    return encode({"values": values, "facts": facts.facts(run), "prompt": facts.prompt(run)})


def _styles() -> str:
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in STYLES)


def _script() -> str:
    """Each part in a function of its own, as gradio would call it; offline/page.js says what ``part`` is."""
    sources = [_source("offline/page.js")]
    for name, scripts in PARTS.items():
        body = "\n".join(map(_source, scripts))
        sources.append(f"part({json.dumps(name)}, (element, props, watch, trigger) => {{\n{body}\n}});")
    return "\n".join(sources)


def _source(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


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
