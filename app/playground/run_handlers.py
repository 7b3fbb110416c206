"""Handles a run on the page: one event begins it, one streams it, one ends it.

The streaming event has one output. Because Gradio rebuilds even the skipped outputs of every update, each would take
time from the run that is being measured.
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import gradio as gr

from app.form import NAMES, settings
from app.jobs.baseline import with_baseline
from app.jobs.request import VisitorRequest
from app.jobs.result_cache import RecordedRun
from app.jobs.service import Service
from app.jobs.updates import Fold, Update
from app.jobs.visitor import Session, lab_visitor_id, visitor_id
from app.playground.branch_handlers import BranchHandlers
from app.playground.conclusion import conclusion
from app.playground.run_press import PressHandlers, RunPress
from app.playground.startup_run import load_recorded
from app.ui.widgets import SKIP
from app.views import player_feed, tiles
from app.views.status_words import ago
from app.views.totals import Totals
from engine.config import RunConfig
from engine.errors import EngineError, quantity
from engine.trace.branch import config_of
from engine.trace.events import Round, RunFinished, RunStarted

_log = logging.getLogger(__name__)


class RunHandlers(PressHandlers):
    def __init__(self, service: Service):
        super().__init__(service)
        self.branches = BranchHandlers(service)

    def begin(self, request: gr.Request, press: RunPress) -> list:
        """Sets Run and Stop. The run on the stage, its charts and its files stay until the new one has begun."""
        press.begin(self.service.runs, visitor_id(request))
        return _running()

    def run(self, request: gr.Request, press: RunPress, *values) -> Iterator[str]:
        """Runs the request and its baseline, or shows the cached result of exactly these settings.

        A result that is on the stage already does not come from the cache again. ``values``: one for each control, in
        the order of form.NAMES.
        """
        read = partial(settings, dict(zip(NAMES, values, strict=True)), self.service.limits)
        yield from self._stream(visitor_id(request), press, read, partial(self._run, press, may_share=True))

    def resume(self, request: gr.Request, press: RunPress) -> Iterator[str]:
        """Streams the run that went on, or ended, while its page was reloaded: from its first round to its end."""
        if press.request is None or press.request.config is None:
            return
        config = press.request.config
        yield from self._stream(
            visitor_id(request), press, lambda: config, lambda mine, _: self.service.runs.follow(mine)
        )

    def resuming(self, press: RunPress) -> list:
        """Returns Run and Stop of a page whose run goes on."""
        return _running() if press.is_waiting else [SKIP] * 2

    def run_alone(self, request: gr.Request, press: RunPress, session: Session) -> Iterator[str]:
        """Runs the run on the stage once more and its baseline, with the device to themselves."""
        read = partial(config_of, press.newest(session).trace)
        yield from self._stream(visitor_id(request), press, read, partial(self._run, press, may_share=False))

    def _stream(self, visitor: str, press: RunPress, read: Callable[[], RunConfig], start: Callable) -> Iterator[str]:
        """Streams a request's values. ``start`` turns the request and its config into its updates."""

        def updates(request: VisitorRequest) -> Iterator[str]:
            live = LiveRun()
            try:
                live.config = read()
                yield from self._updates(request, press, live, start)
                yield from self._linked_branch(request, press, live.config)
            except EngineError as error:
                press.session = live.session
                yield live.fail(str(error))
            except Exception as error:  # a bug in drawing must not leave a page that says it is running, nor be lost
                _log.exception("an unexpected error ended a run on the page")
                press.session = live.session
                words = f"An unexpected error ended this run ({type(error).__name__}); try again."
                yield player_feed.say("error", words)

        yield from press.stream(self.service.runs, visitor, updates)

    def end(self, press: RunPress) -> list:
        """Returns Run, Stop and the session, whether the run has ended or failed."""
        if not press.is_over:  # another press has replaced this one
            return [SKIP] * 3
        return [gr.update(value="Run"), gr.update(interactive=False), press.take_result() or SKIP]

    def stop(self, request: gr.Request) -> None:
        """Sets the engine's cancel flag at once; the running handler then shows the rounds so far."""
        self.service.runs.stop(visitor_id(request))

    def leave(self, request: gr.Request) -> None:
        """Frees the device of a closed tab: from an experiment at once, from a run unless the page only reloads."""
        self.service.runs.leave(visitor_id(request))
        self.service.runs.stop(lab_visitor_id(request))

    def replay(self, press: RunPress, session: Session) -> str:
        """Returns the whole run once more, for a page that missed some of its rounds."""
        newest = press.newest(session)
        if newest.trace is None:
            return SKIP
        text = player_feed.complete(uuid.uuid4().hex, newest.trace)
        return text + player_feed.numbers(newest.trace, newest.baseline, recorded=newest.is_recorded, **newest.repeats)

    def say_whose_run(self, prompt: str, press: RunPress, session: Session) -> str:
        """Says that the run on the stage is of another prompt than the one that an example has just filled in."""
        own = press.newest(session).trace
        shown = own or (None if press.has_empty_stage else load_recorded()[0])
        if not press.is_over or shown is None:
            return SKIP
        if shown.started.prompt_text == prompt:
            return player_feed.say("quiet", "Below is a run of this prompt. Press Run for a new one.")
        below = f"Below is still {'the run before' if own else 'the recorded run'}, of another prompt."
        return player_feed.say("quiet", f"Filled in, not run yet. {below} Press Run.")

    def _linked_branch(self, request: VisitorRequest, press: RunPress, config: RunConfig) -> Iterator[str]:
        """Streams the branch of the link that filled in exactly these settings, once."""
        linked, press.linked = press.linked, None
        run = press.session and press.session.trace
        if linked and linked[0] == config and run and run.finished and not request.is_stopped:
            yield from self.branches.stream(request, press, press.session, *linked[1:])

    def _run(self, press: RunPress, request: VisitorRequest, config: RunConfig, may_share: bool) -> Iterator:
        again, press.stage_config = press.stage_config == config or not may_share, None
        return self.service.runs.run(request, with_baseline(config), again, may_share)

    def _updates(self, request: VisitorRequest, press: RunPress, live: "LiveRun", start: Callable) -> Iterator[str]:
        with closing(start(request, live.config)) as updates:
            for update in updates:
                if isinstance(update, RecordedRun):
                    press.session = Session(update.run, update.baseline, update.repeats)
                    press.stage_config = live.config
                    yield recorded_value(update)
                    return
                yield live.update(update)
        press.session = live.session
        press.stage_config = live.config if live.is_complete else None
        yield live.finish(self.service.limits.seconds)


def _running() -> list:
    """Returns Run and Stop while a run goes on. Run is not disabled, because that would drop the keyboard's focus."""
    return [gr.update(value="Running…"), gr.update(interactive=True)]


class LiveRun:
    """Draws one run from its updates."""

    def __init__(self):
        self.config: RunConfig | None = None
        self._fold: Fold | None = None
        self._totals, self._held = {"run": Totals(), "baseline": Totals()}, ""
        self._feed, self._timed_out, self._others = player_feed.Feed(uuid.uuid4().hex), False, 0

    @property
    def session(self) -> Session | None:
        """None before the first round, so that the run before stays."""
        traces = self._fold.traces() if self._totals["run"].rounds else None
        return Session(traces["run"], traces.get("baseline")) if traces else None

    @property
    def is_complete(self) -> bool:
        return self._totals["run"].finished is not None and not self._timed_out

    def update(self, update: Update) -> str:
        """Returns the value that shows an update; costs no more than the news, however long the run is."""
        self._timed_out, self._others = self._timed_out or update.timed_out, update.others
        self._fold = update.fold
        self._totals[update.name].add(update.events)
        run, status = self._totals["run"], self._progress(update)
        lines = self._held + (self._lines(update) if update.name == "run" else "")
        self._held = "" if run.rounds else lines  # the run before stays on the stage until this one has begun
        if not run.rounds:
            return player_feed.say(*status)
        numbers = tiles.live(run, self._totals["baseline"], measuring=not self.config.is_plain)
        return self._feed.add(f"{lines}{numbers}\n{player_feed.status(*status)}")

    def finish(self, seconds: int) -> str:
        """Returns the last value. ``seconds``: the limit of a run, for one that exceeded it."""
        session = self.session
        kind, words = self._conclusion(session)
        if self._timed_out:
            kind, words = "error", f"This run was ended: a run may take up to {seconds} s here. Ask for fewer tokens."
        if session is None:
            return player_feed.say(kind, words)
        words = " ".join((words, *session.trace.notes))
        # A Stop ends this page's updates at once where the run itself goes on: for another visitor, or far away.
        ended = "" if session.trace.finished else player_feed.end("cancelled", self._totals["run"].tokens)
        numbers = player_feed.numbers(session.trace, session.baseline, others=self._others)
        return self._feed.add(ended + numbers + player_feed.end_line() + player_feed.status(kind, words))

    def fail(self, words: str) -> str:
        session = self.session
        if session is None:
            return player_feed.say("error", words)
        # Otherwise the player would wait for the next round, and call that "live".
        text = player_feed.complete(uuid.uuid4().hex, session.trace)
        text += player_feed.numbers(session.trace, session.baseline)
        return text + player_feed.status("error", words)

    def _lines(self, update: Update) -> str:
        """Returns the player's lines for the newest events."""
        text = "".join(player_feed.about_line(event) for event in update.events if isinstance(event, RunStarted))
        text += player_feed.rounds(tuple(event for event in update.events if isinstance(event, Round)))
        if any(isinstance(event, RunFinished) for event in update.events):
            text += player_feed.finish(self._totals["run"].finished, self._totals["run"].tokens)
        return text

    def _progress(self, update: Update) -> tuple:
        if update.progress:
            return "progress", update.progress.message, update.progress.fraction, update.place
        limit, so_far = self.config.max_new_tokens, self._totals[update.name]
        if update.name == "run" and not so_far.rounds:
            return "progress", "Reading the prompt", None, 0
        doing = f"Round {so_far.rounds}" if update.name == "run" else "Measuring the same without drafting"
        return "progress", f"{doing}: {so_far.tokens} of up to {quantity(limit, 'token')}", so_far.tokens / limit, 0

    def _conclusion(self, session: Session | None) -> tuple[str, str]:
        if session is None:
            return "quiet", "Stopped before the first token."
        run, baseline = session.trace, session.baseline
        if run.finished is None or run.finished.reason == "cancelled":
            return "quiet", "Stopped. The rounds so far stay."
        if shared := tiles.sharing_sentence(run, self._others):
            return "quiet", shared
        if self.config.is_plain:
            return "quiet", "This was plain decoding. Choose a method and a draft length to compare it."
        if baseline is None or tiles.speedup(run, baseline) is None:
            return "quiet", "Stopped before the baseline was measured, so there is no speedup to show."
        return conclusion(run, baseline)


def recorded_value(result: RecordedRun) -> str:
    """Returns the value of a cached result of exactly these settings: played from its first round."""
    run, baseline, how = result.run, result.baseline, {"recorded": True, **result.repeats}
    kind, verdict = "quiet", tiles.sharing_sentence(run) or "This was plain decoding."
    if baseline and tiles.speedup(run, baseline):
        kind, verdict = conclusion(run, baseline, **how)
    when = f"Recorded {ago(time.time() - result.at)}, played again. Press Run once more to run it live."
    text = player_feed.complete(uuid.uuid4().hex, run, recorded=True) + player_feed.numbers(run, baseline, **how)
    return text + player_feed.status("slow" if kind == "slow" else "quiet", " ".join((verdict, *run.notes, when)))
