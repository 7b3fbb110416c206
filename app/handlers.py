"""What happens on the page's events. Thin: the service runs, the views draw, this only hands over."""

import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import gradio as gr

from app.service import Service, Update, is_baseline
from app.session import Session
from app.views import charts, race, ribbon, summary
from app.views.notice import notice
from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput, EngineError
from engine.events import Round, RunFinished, RunStarted
from engine.trace import Trace

SKIP = gr.skip()
SECONDS_BETWEEN_CHARTS = 0.5


class Screen(NamedTuple):
    """The outputs of a run, by name; what is not named stays as it is."""

    ribbon: Any = SKIP
    tiles: Any = SKIP
    notice: Any = SKIP
    run: Any = SKIP
    stop: Any = SKIP
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


class Lane:
    """One job's events, folded as they come."""

    def __init__(self):
        self.started: RunStarted | None = None
        self.rounds: list[Round] = []
        self.finished: RunFinished | None = None

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


def settings(prompt, method, auto, gamma, temperature, seed, max_new_tokens) -> RunConfig:
    """The page's controls as a validated request; an emptied number field gets a sentence, not a traceback."""
    fields = {"Draft length": gamma, "Temperature": temperature, "Seed": seed, "Max new tokens": max_new_tokens}
    for name, value in fields.items():
        if value is None:
            raise BadInput(f"{name} is empty; give it a number.")
    if method == "none":
        draft_length = 0
    else:
        draft_length = AUTO if auto else _whole(gamma)
    return RunConfig(
        prompt=prompt or "",
        method=method,
        gamma=draft_length,
        sampling=SamplingParams(temperature=temperature),
        seed=_whole(seed),
        max_new_tokens=_whole(max_new_tokens),
    )


def _whole(value):
    """Browsers send 4 as 4.0; anything else is left for RunConfig to refuse in words."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Handlers:
    def __init__(self, service: Service):
        self.service = service

    def run(
        self, prompt, method, auto, gamma, temperature, seed, max_new_tokens, request: gr.Request
    ) -> Iterator[Screen]:
        """Run, then measure the baseline; the screen follows. Whatever happens, the buttons come back."""
        lanes = {"run": Lane(), "baseline": Lane()}
        try:
            config = settings(prompt, method, auto, gamma, temperature, seed, max_new_tokens)
            self.service.limits.check(config)
            yield from self._race(config, _visitor(request), lanes)
        except EngineError as error:
            ran, plain = lanes["run"].trace, lanes["baseline"].trace
            yield Screen(tiles=summary.tiles(ran, plain), notice=notice("error", str(error)), **_rest(ran, plain))

    def _race(self, config: RunConfig, visitor: str, lanes: dict[str, Lane]) -> Iterator[Screen]:
        feed, chart = ribbon.Feed(uuid.uuid4().hex), LiveChart()
        starting = notice("progress", "Starting")
        yield Screen(feed.add(""), summary.tiles(None), starting, _running(), _stop(True), Session(), **cleared())
        with closing(self.service.race(visitor, config)) as updates:
            for update in updates:
                lane = lanes[update.lane]
                lane.add(update.events)
                drawn = chart(lanes["run"].trace, lanes["baseline"].trace)
                if update.lane == "run":
                    lines = _lines(update, lane)
                    numbers = summary.tiles(lane.trace, measuring=not is_baseline(config))
                    told = _progress(update, lane, config)
                    yield Screen(feed.add(lines) if lines else SKIP, numbers, told, charts=drawn)
                else:
                    numbers = summary.tiles(lanes["run"].trace, lane.trace, measuring=lane.finished is None)
                    yield Screen(tiles=numbers, notice=_progress(update, lane, config), charts=drawn)
        ran, plain = lanes["run"].trace, lanes["baseline"].trace
        last = ribbon.compared(ran, plain) if ran and plain and summary.speedup(ran, plain) else ""
        last = feed.add(last + ribbon.over())
        yield Screen(last, summary.tiles(ran, plain), _conclusion(config, ran, plain), **_rest(ran, plain))

    def whole(self, session: Session) -> str:
        """For a page that lost rounds on the way: the run again, in one piece."""
        return ribbon.whole(uuid.uuid4().hex, session.trace) if session.trace else SKIP

    def stop(self, request: gr.Request) -> None:
        """Reaches the engine's cancel flag at once; the running handler then shows what there is."""
        self.service.stop(_visitor(request))

    leave = stop  # closing the tab gives the device back too


class LiveChart:
    """The chart that follows a run, less often than the rounds: drawing it takes time from what is being measured."""

    def __init__(self):
        self._due = 0.0

    def __call__(self, run: Trace | None, baseline: Trace | None):
        if time.monotonic() < self._due:
            return SKIP
        self._due = time.monotonic() + SECONDS_BETWEEN_CHARTS
        return charts.live(run, baseline) or SKIP


def _visitor(request: gr.Request | None) -> str:
    return getattr(request, "session_hash", None) or "nobody"


def _running():
    return gr.update(value="Running…")  # not disabled: that would drop the keyboard's focus


def _stop(possible: bool):
    return gr.update(interactive=possible)


def _rest(ran: Trace | None, plain: Trace | None) -> dict:
    return {"run": gr.update(value="Run"), "stop": _stop(False), "session": Session(ran, plain)}


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
        return notice("quiet", "Stopped. What had been made by then stays on screen.")
    if is_baseline(config):
        return notice("quiet", "This was plain decoding. Choose a method and a draft length to race it.")
    verdict = summary.verdict(ran, plain) if plain else ""
    if not verdict:
        return notice("quiet", "Stopped before the baseline was measured, so there is no speedup to show.")
    kinds = {"faster": "good", "slower": "slow", "level": "quiet"}
    return notice(kinds[summary.tone(summary.speedup(ran, plain))], verdict)
