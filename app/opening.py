"""What plays when the page opens: a run recorded by the engine, so that nobody waits for a model to see one."""

from typing import NamedTuple

from app.components.live import ASSETS
from app.views import charts, ribbon, summary
from engine.errors import BadInput
from engine.trace import load

OPENING = ASSETS / "traces" / "opening.json"


class Opening(NamedTuple):
    """First values, by component."""

    ribbon: str
    tiles: str
    charts: str


def opening() -> Opening:
    """Without a readable recording the page opens empty, which is no reason not to open."""
    try:
        run = load(OPENING)
    except BadInput as error:
        print(f"The page opens without its recorded run: {error}", flush=True)
        return Opening("", summary.tiles(None), charts.blank())
    return Opening(ribbon.whole("recorded", run, recorded=True), summary.tiles(run, recorded=True), charts.whole(run))
