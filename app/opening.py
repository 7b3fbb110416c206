"""What plays when the page opens: a run recorded by the engine, so that nobody waits for a model to see one."""

from typing import NamedTuple

from app.components.live import ASSETS
from app.views import charts, race, ribbon, summary
from app.views.notice import notice
from engine.errors import BadInput
from engine.trace import Trace, load

OPENING = ASSETS / "traces" / "opening.json"
BASELINE = ASSETS / "traces" / "opening-baseline.json"


class Opening(NamedTuple):
    """First values, by component."""

    ribbon: str
    tiles: str
    charts: str
    race: str
    notice: str


def recorded() -> tuple[Trace | None, Trace | None]:
    """The recorded run and its baseline; without readable ones the page opens empty, which is no reason not to open."""
    try:
        return load(OPENING), load(BASELINE)
    except BadInput as error:
        print(f"The page opens without its recorded run: {error}", flush=True)
        return None, None


def opening() -> Opening:
    run, baseline = recorded()
    if run is None:
        return Opening("", summary.tiles(None), charts.blank(), race.race(None, None), notice("quiet"))
    words = f"This run was recorded earlier, on {run.started.device}. {summary.verdict(run, baseline, recorded=True)}"
    return Opening(
        ribbon.whole("recorded", run, recorded=True) + ribbon.compared(run, baseline),
        summary.tiles(run, baseline, recorded=True),
        charts.whole(run, baseline),
        race.race(run, baseline),
        notice("quiet", words),
    )
