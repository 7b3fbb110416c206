"""Renders a run as one HTML file that replays by double-click: the page's own stage with a recorded run on it."""

from string import Template

from app.ui.html_component import read_asset
from app.ui.static_page import document, mount
from app.views import player_feed, run_facts
from engine.trace.trace import Trace

STYLES = ("playground/results.css", "player/player.css", "player/stage.css")


def page(run: Trace, baseline: Trace | None = None) -> str:
    """Returns the file's text. A trace of more than player_feed.LEAN tokens has no candidates, as on the page."""
    body = Template(read_asset("offline/run.html")).substitute(stage=mount("stage", look="sl-stage"))
    values = {"stage": player_feed.replay("file", run, baseline, "A recorded run")}
    data = {"values": values, "facts": run_facts.facts(run), "prompt": run.started.prompt_text}
    return document("SpecLens: a recorded run", body, STYLES, "offline/run.js", data)
