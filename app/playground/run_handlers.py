"""Handles a run on the page: one event begins it, one streams it, one ends it.

The streaming event has four outputs only. Because Gradio rebuilds even the skipped outputs of every update, each would
take time from the run that is being measured.
"""

import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import closing

import gradio as gr

from app.form import NAMES, settings
from app.jobs.service import RecordedRun, Service, Update, is_baseline, with_baseline
from app.jobs.visitor import Session, lab_visitor_id, visitor_id
from app.playground.press import Press
from app.ui.widgets import SKIP, outputs
from app.views import charts, player_feed, race, tiles
from app.views.notice import notice
from app.views.status_chip import ago
from engine.config import RunConfig
from engine.errors import EngineError
from engine.trace.events import Round, RunFinished, RunStarted
from engine.trace.trace import TraceBuilder

_log = logging.getLogger(__name__)
SECONDS_BETWEEN_CHARTS = 0.5  # drawing them takes time from the run that is being measured
NOTICE_KINDS = {"faster": "good", "slower": "slow", "level": "quiet"}
Outputs = outputs("player", "tiles", "notice", "charts")


class RunHandlers:
    def __init__(self, service: Service):
        self.service = service

    def begin(self, press: Press) -> list:
        """Sets Run, Stop, Run again and the session, and clears the race and the four files of the run before."""
        press.begin()
        running = gr.update(value="Running…")  # not disabled, because that would drop the keyboard's focus
        no_file = gr.update(value=None, interactive=False)
        return [running, gr.update(interactive=True), gr.update(visible=False), Session(), race.empty(), *[no_file] * 4]

    def run(self, request: gr.Request, press: Press, again: bool, *values) -> Iterator[Outputs]:
        """Runs the request and its baseline, or shows the cached result of exactly these settings.

        ``again``: never from the cache. ``values``: of every control, in the order of form.NAMES.
        """
        live = LiveRun()
        with press.streaming():
            try:
                live.config = settings(dict(zip(NAMES, values, strict=True)))
                yield from self._updates(visitor_id(request), press, live, again)
            except EngineError as error:
                press.session = live.session
                yield live.fail(str(error))
            except Exception as error:  # a bug in drawing must not leave a page that says it is running, nor be lost
                _log.exception("the page stumbled on a run")
                press.session = live.session
                words = f"The page stumbled on this run ({type(error).__name__}); try again."
                yield Outputs(notice=notice("error", words))

    def end(self, press: Press) -> list:
        """Run, Stop, Run again and the session, whether the run has ended, failed or was never begun."""
        if press.is_streaming:  # another press has replaced this one
            return [SKIP] * 4
        again = gr.update(visible=press.is_recorded)
        return [gr.update(value="Run"), gr.update(interactive=False), again, press.session]

    def stop(self, request: gr.Request, press: Press) -> None:
        """Sets the engine's cancel flag at once; the running handler then shows the rounds so far."""
        press.is_stopped = True
        self.service.stop(visitor_id(request))

    def leave(self, request: gr.Request) -> None:
        """A closed tab frees the device."""
        for visitor in (visitor_id(request), lab_visitor_id(request)):
            self.service.stop(visitor)

    def replay(self, press: Press, session: Session) -> str:
        """The whole run once more, for a page that missed some of its rounds."""
        trace = session.trace or press.session.trace  # the session is set only after the stream
        return player_feed.complete(uuid.uuid4().hex, trace) if trace else SKIP

    def _updates(self, visitor: str, press: Press, live: "LiveRun", again: bool) -> Iterator[Outputs]:
        has_begun = False
        with closing(self.service.run(visitor, with_baseline(live.config), again)) as updates:
            for update in updates:
                if press.is_stopped:  # perhaps before the service knew of this run
                    self.service.stop(visitor)
                if isinstance(update, RecordedRun):
                    press.session, press.is_recorded = Session(update.run, update.baseline), True
                    yield recorded(update)
                    return
                if not has_begun:
                    has_begun = True
                    yield live.start()
                yield live.update(update)
        press.session = live.session
        yield live.finish(self.service.limits.seconds)


class LiveRun:
    """Draws one run from its updates."""

    def __init__(self):
        self.config: RunConfig | None = None
        self.run, self.baseline = TraceBuilder(), TraceBuilder()
        self._feed, self._charts_due, self._is_late = player_feed.Feed(uuid.uuid4().hex), 0.0, False

    @property
    def session(self) -> Session:
        return Session(self.run.trace, self.baseline.trace)

    def start(self) -> Outputs:
        return Outputs(self._feed.add(""), tiles.tiles(None), notice("progress", "Starting", place=0), charts.empty())

    def update(self, update: Update) -> Outputs:
        self._is_late = self._is_late or update.is_late
        builder = self.run if update.name == "run" else self.baseline
        builder.add(update.events)
        run, baseline = self.run.trace, self.baseline.trace
        is_measuring = not is_baseline(self.config) and self.baseline.finished is None
        lines = self._lines(update) if update.name == "run" else ""
        return Outputs(
            self._feed.add(lines) if lines else SKIP,
            tiles.tiles(run, baseline, measuring=is_measuring),
            self._progress(update, builder),
            self._live_charts(),
        )

    def finish(self, seconds: int) -> Outputs:
        """``seconds``: the limit of a run, for one that exceeded it."""
        run, baseline = self.run.trace, self.baseline.trace
        is_complete = run and baseline and tiles.speedup(run, baseline)
        lines = (player_feed.compared(run, baseline) if is_complete else "") + player_feed.over()
        words = self._conclusion()
        if self._is_late:
            words = notice("error", f"This run was ended: a run may take up to {seconds} s here. Ask for fewer tokens.")
        return Outputs(self._feed.add(lines), tiles.tiles(run, baseline), words)

    def fail(self, words: str) -> Outputs:
        run = self.run.trace
        # Otherwise the player would wait for the next round, and call that "live".
        lines = player_feed.complete(uuid.uuid4().hex, run) if run and run.finished is None else SKIP
        return Outputs(lines, tiles.tiles(run, self.baseline.trace), notice("error", words))

    def _live_charts(self):
        if time.monotonic() < self._charts_due:
            return SKIP
        self._charts_due = time.monotonic() + SECONDS_BETWEEN_CHARTS
        return charts.live(self.run.trace, self.baseline.trace) or SKIP

    def _lines(self, update: Update) -> str:
        """The player's lines for the newest events."""
        text = "".join(player_feed.about(event) for event in update.events if isinstance(event, RunStarted))
        text += player_feed.rounds(tuple(event for event in update.events if isinstance(event, Round)))
        if any(isinstance(event, RunFinished) for event in update.events):
            text += player_feed.finish(self.run.finished, self.run.tokens)
        return text

    def _progress(self, update: Update, builder: TraceBuilder) -> str:
        if update.progress:
            return notice("progress", update.progress.message, update.progress.fraction, update.place)
        doing = "Measuring the baseline: the same prompt without drafting" if builder is self.baseline else "Running"
        return notice("progress", f"{doing}: {builder.tokens} of up to {self.config.max_new_tokens} tokens", place=0)

    def _conclusion(self) -> str:
        run, baseline = self.run.trace, self.baseline.trace
        if run is None or run.finished is None or run.finished.reason == "cancelled":
            has_rounds = run is not None and run.rounds
            words = "Stopped. The rounds so far stay on screen." if has_rounds else "Stopped before the first token."
            return notice("quiet", words)
        if is_baseline(self.config):
            return notice("quiet", "This was plain decoding. Choose a method and a draft length to race it.")
        verdict = tiles.verdict(run, baseline) if baseline else ""
        if not verdict:
            return notice("quiet", "Stopped before the baseline was measured, so there is no speedup to show.")
        return notice(NOTICE_KINDS[tiles.tone(tiles.speedup(run, baseline))], verdict)


def recorded(result: RecordedRun) -> Outputs:
    """A cached result of exactly these settings."""
    run, baseline = result.run, result.baseline
    verdict = tiles.verdict(run, baseline, recorded=True) if baseline else "This was plain decoding."
    words = f"Recorded {ago(time.time() - result.at)}: exactly these settings have run here before. {verdict}"
    text = player_feed.complete(uuid.uuid4().hex, run, recorded=True)
    return Outputs(
        text + (player_feed.compared(run, baseline) if baseline and tiles.speedup(run, baseline) else ""),
        tiles.tiles(run, baseline, recorded=True),
        notice("slow" if baseline and tiles.tone(tiles.speedup(run, baseline)) == "slower" else "quiet", words),
    )
