"""What is shown once a run has ended: race, charts, files, and the settings for other engines. Thin, like handlers."""

import uuid
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app import offline
from app.controls import settings
from app.files import Exports, Written, read
from app.handlers import Screen
from app.service import Service
from app.session import Session, visitor
from app.views import charts, race, ribbon, summary
from app.views.notice import notice
from app.views.production import Choice, production
from engine.config import AUTO
from engine.errors import EngineError
from engine.statistics import statistics
from engine.trace import Trace

SKIP = gr.skip()


class Shown(NamedTuple):
    """The outputs below the rounds, by name."""

    race: Any = SKIP
    charts: Any = SKIP
    trace_file: Any = SKIP
    baseline_file: Any = SKIP
    table_file: Any = SKIP
    page_file: Any = SKIP


class Results:
    def __init__(self, service: Service):
        self.service, self.exports = service, Exports()

    def show(self, session: Session) -> Shown:
        """Prepared now: a button that fills itself when it is pressed hands out the file of the run before."""
        run, baseline = session.trace, session.baseline
        try:
            written = self.exports.write(session, offline.page)
        except OSError:  # a full disk takes the files away, not the page
            gr.Warning("The files of this run could not be written on the server.")
            written = Written()
        return Shown(race.race(run, baseline), charts.whole(run, baseline), *map(_file, written))

    def bring(self, paths: list[str] | None, request: gr.Request) -> Screen:
        """A trace file on the page, as if it had just been run; nothing of it is kept on the server.

        Never into a run: what the two wrote would stand mixed on the screen.
        """
        paths = paths or []
        try:
            session = read(paths)
            if self.service.busy(visitor(request)):  # asked last, for a run may begin while a large file is read
                # Beside the page: the run's own progress would wipe it from the notice at once.
                told = "A run is in progress here: press Stop or let it end, then open the file again."
                raise gr.Error(told, title="Not now", print_exception=False)
        except EngineError as error:
            return Screen(notice=notice("error", str(error)))
        finally:
            for path in paths:
                Path(path).unlink(missing_ok=True)
        run, baseline = session.trace, session.baseline
        return Screen(
            ribbon=ribbon.replay(uuid.uuid4().hex, run, baseline),
            tiles=summary.tiles(run, baseline, recorded=True),
            notice=notice("quiet", _about(session)),
            session=session,
        )

    def configure(self, pair: str, method: str, auto: bool, gamma: float, temperature: float, session: Session) -> str:
        """The controls as they stand, for other engines."""
        if method == AUTO and session.trace:
            method = session.trace.started.config["method"]  # what auto came to
        try:
            values = {"pair": pair, "method": method, "auto": auto, "gamma": gamma, "temperature": temperature}
            config = settings(values)
            models = self.service.models(pair, method)
        except EngineError:
            return SKIP  # the run itself will say what is wrong with the controls
        chosen = _chosen(session.trace, method) if config.gamma == AUTO else None
        greedy = config.sampling.greedy
        return production(Choice(method, config.gamma, models.target, models.draft, models.gguf, greedy, chosen))


def _file(path: str | None):
    return gr.update(value=path, interactive=path is not None)


def _about(session: Session) -> str:
    started = session.trace.started
    beside = "with its baseline" if session.baseline else "without a baseline, so there is no speedup to show"
    return f"Opened from a file: a recorded run on {started.device}, {beside}. Nothing was computed here."


def _chosen(run: Trace | None, method: str) -> int | None:
    """The draft length that auto took on average, of the rounds that drafted: its usual one may be a cautious 1 that
    most of the tokens did not come from."""
    if run is None or run.started.config.get("method") != method:
        return None
    drafted = {gamma: count for gamma, count in statistics(run).gammas.items() if gamma}
    return round(sum(gamma * count for gamma, count in drafted.items()) / sum(drafted.values())) if drafted else None
