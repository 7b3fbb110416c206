"""Handles a branch: a token forced at a place of the run on the stage, run as a second lane beside it."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr

from app.jobs.request import VisitorRequest
from app.jobs.result_cache import RecordedRun
from app.jobs.updates import Update
from app.jobs.visitor import Session, visitor_id
from app.playground.conclusion import conclusion
from app.playground.run_press import PressHandlers, RunPress
from app.playground.startup_run import load_recorded
from app.ui.widgets import SKIP
from app.views import player_feed, tiles
from app.views.notice import Kind
from engine.errors import EngineError, quantity
from engine.trace.branch import branch_config, check_models
from engine.trace.events import Round, RunStarted
from engine.trace.trace import Trace, with_branch


class BranchHandlers(PressHandlers):
    def begin(self, request: gr.Request, press: RunPress, event: gr.EventData) -> dict:
        """Notes the token that a button of the inspector forces, and returns Stop."""
        press.choice = read_choice(event._data)
        press.begin_if_free(self.service.runs, visitor_id(request))
        return gr.update(interactive=True)

    def end(self, press: RunPress) -> list:
        """Returns Stop and the session."""
        if not press.is_over:  # a run goes on, or has replaced the branch
            return [SKIP, SKIP]
        return [gr.update(interactive=False), press.take_result() or SKIP]

    def run(self, request: gr.Request, press: RunPress, session: Session) -> Iterator[str]:
        choice, newest = press.choice, press.newest(session)
        newest = newest if newest.trace else Session(*load_recorded(), is_recorded=True)
        if not press.is_waiting:
            yield player_feed.say("error", "Wait until the run has ended, then force a token.")
            return
        if choice is None:
            self.service.runs.close(press.request)
            yield player_feed.say("error", "No token was named; press a token's button in the inspector again.")
            return
        visitor = visitor_id(request)
        yield from press.stream(self.service.runs, visitor, lambda mine: self.stream(mine, press, newest, *choice))

    def stream(
        self, request: VisitorRequest, press: RunPress, session: Session, place: int, token: int
    ) -> Iterator[str]:
        """Streams the second lane while it runs. The session with the branch is in ``press`` at the end."""
        live = LiveBranch(session.trace)
        try:
            config = branch_config(session.trace, place, token)
            yield player_feed.say("progress", "Starting the branch")
            with closing(self.service.runs.run(request, (("branch", config),), may_share=True)) as updates:
                for update in updates:
                    yield live.show_recorded(update) if isinstance(update, RecordedRun) else live.update(update)
            if live.branch is None:
                yield live.end("quiet", "Stopped before the branch began.")
                return
            press.session = replace(session, trace=with_branch(session.trace, live.branch))
            yield live.finish()
        except EngineError as error:
            yield live.end("error", str(error))
        finally:
            if press.session is None and live.has_begun:  # it has taken the place of the branch before
                press.session = replace(session, trace=replace(session.trace, branch=None))

    def drop(self, press: RunPress, session: Session) -> list:
        """Returns the stage and the session without the branch, which the page has taken away already."""
        session = press.newest(session)
        if not press.has_ended() or session.trace is None:
            return [SKIP, SKIP]
        press.take_result()
        kind, words, baseline = "quiet", "The branch is dropped; the run stays.", session.baseline
        if baseline and tiles.speedup(session.trace, baseline):
            kind, verdict = conclusion(session.trace, baseline, recorded=session.is_recorded, **session.repeats)
            words = f"The branch is dropped. {verdict}"
        return [player_feed.say(kind, words), replace(session, trace=replace(session.trace, branch=None))]

    def keep(self, press: RunPress, session: Session) -> list:
        """Returns the stage and the session with the branch as the run."""
        session = press.newest(session)
        branch = session.trace and session.trace.branch
        if not press.has_ended() or branch is None:
            return [SKIP, SKIP]
        press.stage_config = None
        press.take_result()
        is_first = not session.trace.started.prefix
        forced = session.forced or forced_in(branch if is_first else session.trace)
        which = "this" if is_first else "its first"
        words = f"The branch is the run now. A link opens the first run, then {which} branch."
        text = player_feed.complete(uuid.uuid4().hex, branch) + player_feed.numbers(branch, None)
        return [text + player_feed.status("quiet", words), Session(branch, forced=forced)]


class LiveBranch:
    """Draws one branch of ``run`` from its updates."""

    def __init__(self, run: Trace):
        self.run, self._trace = run, lambda: None
        self._started: RunStarted | None = None
        self._feed, self._key, self._timed_out = player_feed.Feed(None), uuid.uuid4().hex, False

    @property
    def has_begun(self) -> bool:
        return self._started is not None

    @property
    def branch(self) -> Trace | None:
        """None before its first round."""
        trace = self._trace()
        return trace if trace and trace.rounds else None

    def update(self, update: Update) -> str:
        """Raises BadInput where the branch is not of the same models as its run."""
        self._timed_out = self._timed_out or update.timed_out
        self._trace = lambda: update.fold.traces()["branch"]
        lines = ""
        for event in update.events:
            if isinstance(event, RunStarted):
                check_models(self.run.started, event)
                self._started = event
                lines += player_feed.branch_start(event, self._key)
        lines += player_feed.branch_rounds(tuple(event for event in update.events if isinstance(event, Round)))
        return self._feed.add(lines + player_feed.status("progress", *self._progress(update)))

    def show_recorded(self, result: RecordedRun) -> str:
        """Returns the value of a branch that has run here before."""
        branch = result.traces["branch"]
        self._trace = lambda: branch
        check_models(self.run.started, branch.started)
        self._started = branch.started
        return self._feed.add(
            player_feed.branch_start(branch.started, self._key) + player_feed.branch_rounds(branch.rounds)
        )

    def finish(self) -> str:
        trace = self._trace()
        reason = trace.finished.reason if trace.finished else "lost"
        kind, words = "quiet", sentence(self.run, trace)
        if self._timed_out:
            kind, words = "error", "The branch took longer than a run may here; its rounds so far stay."
        elif reason == "cancelled":
            words = "Stopped. The rounds of the branch so far stay."
        lines = player_feed.branch_end(reason) + player_feed.end_line()
        return self._feed.add(lines + player_feed.status(kind, words))

    def end(self, kind: Kind, words: str) -> str:
        """Ends a branch that was refused or stopped before its first round, and so has no lane."""
        return self._feed.add((player_feed.no_branch() if self.has_begun else "") + player_feed.status(kind, words))

    def _progress(self, update: Update) -> tuple:
        if update.progress:
            return update.progress.message, update.progress.fraction, update.place
        if self._started is None:
            return "The branch begins", None, 0
        written = update.fold.tokens["branch"]
        limit = (self._started.max_new_tokens or 0) - len(self._started.prefix)
        return f"The branch: {written} of up to {quantity(limit, 'token')}", written / limit, 0


def forced_in(branch: Trace) -> tuple[int, int]:
    """Returns the place and the token that a branch forces."""
    *before, forced = branch.started.prefix
    return len(before), forced.id


def sentence(run: Trace, branch: Trace) -> str:
    """Says what the two lanes have in common."""
    *before, forced = branch.started.prefix
    place = len(before)
    ended = next(r for r in run.rounds if r.emitted and r.emitted[-1].position >= place)
    word = forced.text.strip() or forced.label or "a token without text"
    return (
        f"“{word[:40]}” was forced in round {ended.index + 1}. Both lanes draw the same random numbers at the "
        "same places. The numbers above describe the run, not the branch."
    )


def read_choice(data) -> tuple[int, int] | None:
    """Reads the place and the token that the page names; None for anything else."""
    named: list[Any] = [data.get(name) if isinstance(data, dict) else None for name in ("place", "id")]
    place, token = named
    is_named = all(type(number) is int and 0 <= number < 2**31 for number in (place, token))
    return (place, token) if is_named else None
