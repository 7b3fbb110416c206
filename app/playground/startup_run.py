"""Loads the recorded run that the page shows when it opens, before a model is loaded."""

from typing import NamedTuple

from app.views import charts, player_feed, race, tiles
from app.views.notice import notice
from engine.errors import BadInput
from engine.files import ASSETS
from engine.trace.trace import Trace, load

OPENING = ASSETS / "data" / "traces" / "opening.json"
BASELINE = ASSETS / "data" / "traces" / "opening-baseline.json"


class Opening(NamedTuple):
    """The first value of each component."""

    ribbon: str
    tiles: str
    charts: str
    race: str
    notice: str


def recorded() -> tuple[Trace | None, Trace | None]:
    """The recorded run and its baseline; (None, None) with a line on the console if they cannot be read."""
    try:
        return load(OPENING), load(BASELINE)
    except BadInput as error:
        print(f"The page opens without its recorded run: {error}", flush=True)
        return None, None


def opening() -> Opening:
    run, baseline = recorded()
    if run is None:
        return Opening("", tiles.tiles(None), charts.empty(), race.race(None, None), notice("quiet"))
    words = f"This run was recorded earlier, on {run.started.device}. {tiles.verdict(run, baseline, recorded=True)}"
    return Opening(
        player_feed.complete("recorded", run, recorded=True) + player_feed.compared(run, baseline),
        tiles.tiles(run, baseline, recorded=True),
        charts.complete(run, baseline),
        race.race(run, baseline),
        notice("quiet", words),
    )
