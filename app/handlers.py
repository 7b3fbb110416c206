"""What happens on the page's events. Thin: the service runs, the views draw, this only hands over."""

import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import gradio as gr

from app.controls import METHODS, NAMES, choices, settings
from app.kept import Recording
from app.service import Service, Update, is_baseline
from app.session import Session, experimenter, visitor
from app.views import charts, race, ribbon, state, summary
from app.views.notice import about_pair, notice
from app.views.state import ago
from engine.config import AUTO, RunConfig
from engine.errors import EngineError
from engine.events import Round, RunFinished, RunStarted
from engine.trace import Trace

_log = logging.getLogger(__name__)
SKIP = gr.skip()
SECONDS_BETWEEN_CHARTS = 0.5
UNUSABLE = " (not on this machine)"


class Screen(NamedTuple):
    """The outputs of a run, by name; what is not named stays as it is."""

    ribbon: Any = SKIP
    tiles: Any = SKIP
    notice: Any = SKIP
    run: Any = SKIP
    stop: Any = SKIP
    again: Any = SKIP
    chip: Any = SKIP
    session: Any = SKIP
    race: Any = SKIP
    charts: Any = SKIP
    trace_file: Any = SKIP
    baseline_file: Any = SKIP
    table_file: Any = SKIP
    page_file: Any = SKIP


def cleared() -> dict:
    """A run begins: what the last one left below would be taken for its own."""
    files = dict.fromkeys(
        ("trace_file", "baseline_file", "table_file", "page_file"), gr.update(value=None, interactive=False)
    )
    return {"race": race.empty(), "charts": charts.blank(), **files}


class Choices(NamedTuple):
    """What follows from the pair chosen."""

    method: Any = SKIP
    thinking: Any = SKIP
    precision: Any = SKIP
    note: Any = SKIP


class Lane:
    """One job's events, folded as they come."""

    def __init__(self):
        self.started: RunStarted | None = None
        self.rounds: list[Round] = []
        self.finished: RunFinished | None = None

    @classmethod
    def of(cls, trace: Trace) -> "Lane":
        lane = cls()
        lane.started, lane.rounds, lane.finished = trace.started, list(trace.rounds), trace.finished
        return lane

    def add(self, events) -> None:
        for event in events:
            match event:
                case RunStarted():
                    self.started = event
                case Round():
                    self.rounds.append(event)
                case RunFinished():
                    self.finished = event

    @property
    def trace(self) -> Trace | None:
        return Trace(self.started, tuple(self.rounds), self.finished) if self.started else None

    @property
    def tokens(self) -> int:
        return sum(len(event.emitted) for event in self.rounds)


class Handlers:
    def __init__(self, service: Service):
        self.service = service

    def run(self, request: gr.Request, *values) -> Iterator[Screen]:
        """Run, then measure the baseline; the screen follows. Settings that have been run are shown as recorded.

        ``values``: of every control, in the order of controls.NAMES.
        """
        yield from self._run(values, request, again=False)

    def run_again(self, request: gr.Request, *values) -> Iterator[Screen]:
        """As ``run``, but measured anew."""
        yield from self._run(values, request, again=True)

    def _run(self, values, request: gr.Request, again: bool) -> Iterator[Screen]:
        """Whatever happens, the buttons come back."""
        lanes = {"run": Lane(), "baseline": Lane()}
        try:
            config = settings(dict(zip(NAMES, values, strict=True)))
            yield from self._race(config, visitor(request), again, lanes)
        except EngineError as error:
            ran, plain = lanes["run"].trace, lanes["baseline"].trace
            told = notice("error", str(error))
            yield Screen(_broken_off(ran), summary.tiles(ran, plain), told, **_rest(ran, plain))
        except Exception as error:  # a bug in drawing must not leave a page that says it is running, nor be lost
            _log.exception("the page stumbled on a run")
            words = f"The page stumbled on this run ({type(error).__name__}); try again."
            yield Screen(notice=notice("error", words), **_rest(lanes["run"].trace, lanes["baseline"].trace))

    def _race(self, config: RunConfig, visitor: str, again: bool, lanes: dict[str, Lane]) -> Iterator[Screen]:
        feed, chart = ribbon.Feed(uuid.uuid4().hex), LiveChart()
        begun = late = False
        with closing(self.service.race(visitor, config, again)) as updates:
            for update in updates:
                if isinstance(update, Recording):
                    yield _recorded(update)
                    return
                if not begun:
                    begun = True
                    yield _begun(feed)
                lane, late = lanes[update.lane], late or update.late
                lane.add(update.events)
                drawn = chart(lanes["run"].trace, lanes["baseline"].trace)
                chip = state.yours(update.stage.place if update.stage else 0)
                if update.lane == "run":
                    lines = _lines(update, lane)
                    numbers = summary.tiles(lane.trace, measuring=not is_baseline(config))
                    told = _progress(update, lane, config)
                    yield Screen(feed.add(lines) if lines else SKIP, numbers, told, charts=drawn, chip=chip)
                else:
                    numbers = summary.tiles(lanes["run"].trace, lane.trace, measuring=lane.finished is None)
                    yield Screen(tiles=numbers, notice=_progress(update, lane, config), charts=drawn)
        ran, plain = lanes["run"].trace, lanes["baseline"].trace
        last = ribbon.compared(ran, plain) if ran and plain and summary.speedup(ran, plain) else ""
        told = self._out_of_time() if late else _conclusion(config, ran, plain)
        yield Screen(feed.add(last + ribbon.over()), summary.tiles(ran, plain), told, **_rest(ran, plain))

    def _out_of_time(self) -> str:
        seconds = self.service.limits.seconds
        return notice("error", f"A run may take up to {seconds} s here and this one was ended; ask for fewer tokens.")

    def chosen(self, pair: str, method: str) -> Choices:
        """What a pair has to offer, and why it cannot run here where that is so; nothing is loaded for it."""
        try:
            methods = (AUTO, *self.service.methods(pair))
            reasons, size = self.service.problems(pair), self.service.to_fetch(pair)
            thinking, precisions = self.service.engine.thinking(pair), self.service.engine.precisions()
        except EngineError as error:
            return Choices(note=notice("error", str(error)))
        return Choices(
            # A method that stays is not sent: a link may be filling it in meanwhile.
            method=gr.update(choices=choices(METHODS, methods), **({} if method in methods else {"value": AUTO})),
            thinking=gr.update(visible=thinking),
            precision=gr.update(visible=len(precisions) > 1),
            note=_about_pair(self.service.pairs[pair].title, reasons, size),
        )

    def offered(self) -> Any:
        """The list of pairs, with a word at those that cannot run here; why is said when one is chosen."""
        try:
            unusable = self.service.unusable()
        except EngineError:
            return SKIP
        words = {
            name: f"{pair.title}{UNUSABLE if name in unusable else ''}" for name, pair in self.service.pairs.items()
        }
        return gr.update(choices=choices(words))

    def state(self) -> dict:
        """What the engine is up to, for everybody's chip."""
        now = self.service.state()
        stage = now.stage
        doing = (stage.message, stage.fraction) if stage else ("", None)
        return state.chip(now.kind, now.device, now.waiting, *doing)

    def whole(self, session: Session) -> str:
        """For a page that lost rounds on the way: the run again, in one piece."""
        return ribbon.whole(uuid.uuid4().hex, session.trace) if session.trace else SKIP

    def stop(self, request: gr.Request) -> None:
        """Reaches the engine's cancel flag at once; the running handler then shows what there is."""
        self.service.stop(visitor(request))

    def leave(self, request: gr.Request) -> None:
        """Closing the tab gives the device back too."""
        for name in (visitor(request), experimenter(request)):
            self.service.stop(name)


class LiveChart:
    """The chart that follows a run, less often than the rounds: drawing it takes time from what is being measured."""

    def __init__(self):
        self._due = 0.0

    def __call__(self, run: Trace | None, baseline: Trace | None):
        if time.monotonic() < self._due:
            return SKIP
        self._due = time.monotonic() + SECONDS_BETWEEN_CHARTS
        return charts.live(run, baseline) or SKIP


def _begun(feed: ribbon.Feed) -> Screen:
    return Screen(
        ribbon=feed.add(""),
        tiles=summary.tiles(None),
        notice=notice("progress", "Starting"),
        run=gr.update(value="Running…"),  # not disabled: that would drop the keyboard's focus
        stop=_stop(True),
        again=gr.update(visible=False),
        session=Session(),
        **cleared(),
    )


def _recorded(found: Recording) -> Screen:
    """A run of exactly these settings, as it was measured before."""
    when = ago(time.time() - found.made)
    run, plain = found.run, found.baseline
    verdict = summary.verdict(run, plain, recorded=True) if plain else "This was plain decoding."
    words = f"Recorded {when}: exactly these settings have been run here before, so nothing was computed. {verdict}"
    text = ribbon.whole(uuid.uuid4().hex, run, recorded=True)
    return Screen(
        ribbon=text + (ribbon.compared(run, plain) if plain and summary.speedup(run, plain) else ""),
        tiles=summary.tiles(run, plain, recorded=True),
        notice=notice("slow" if plain and summary.tone(summary.speedup(run, plain)) == "slower" else "quiet", words),
        **_rest(run, plain) | {"again": gr.update(visible=True)},
    )


def _about_pair(title: str, reasons: list[str], size: int) -> str:
    if reasons:
        return about_pair(title, "error", " ".join(reasons))
    if size:
        text = f"Its weights are not here yet: the first run downloads about {size / 1e9:.1f} GB."
        return about_pair(title, text=text)
    return about_pair(title)


def _stop(possible: bool):
    return gr.update(interactive=possible)


def _broken_off(ran: Trace | None):
    """The player would wait for the next round for ever, and call that "live"."""
    return ribbon.whole(uuid.uuid4().hex, ran) if ran and ran.finished is None else SKIP


def _rest(ran: Trace | None, plain: Trace | None) -> dict:
    return {
        "run": gr.update(value="Run"),
        "stop": _stop(False),
        "again": gr.update(visible=False),
        "chip": state.yours(None),
        "session": Session(ran, plain),
    }


def _lines(update: Update, lane: Lane) -> str:
    text = "".join(ribbon.about(event) for event in update.events if isinstance(event, RunStarted))
    text += ribbon.rounds(tuple(event for event in update.events if isinstance(event, Round)))
    if any(isinstance(event, RunFinished) for event in update.events):
        text += ribbon.finish(lane.finished, lane.tokens)
    return text


def _progress(update: Update, lane: Lane, config: RunConfig) -> str:
    if update.stage:
        return notice("progress", update.stage.message, update.stage.fraction)
    doing = "Measuring the baseline: the same prompt without drafting" if update.lane == "baseline" else "Running"
    return notice("progress", f"{doing}: {lane.tokens} of up to {config.max_new_tokens} tokens")


def _conclusion(config: RunConfig, ran: Trace | None, plain: Trace | None) -> str:
    if ran is None or ran.finished is None or ran.finished.reason == "cancelled":
        some = ran is not None and ran.rounds  # none for whoever leaves the queue
        made = "Stopped. What had been made by then stays on screen." if some else "Stopped before the first token."
        return notice("quiet", made)
    if is_baseline(config):
        return notice("quiet", "This was plain decoding. Choose a method and a draft length to race it.")
    verdict = summary.verdict(ran, plain) if plain else ""
    if not verdict:
        return notice("quiet", "Stopped before the baseline was measured, so there is no speedup to show.")
    kinds = {"faster": "good", "slower": "slow", "level": "quiet"}
    return notice(kinds[summary.tone(summary.speedup(ran, plain))], verdict)
