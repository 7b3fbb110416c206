"""Repeats the measurements of the run on the stage, with drafting and without in turn: a slow machine slows both."""

import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import gradio as gr

from app.jobs.baseline import with_baseline
from app.jobs.request import VisitorRequest
from app.jobs.result_cache import RecordedRun
from app.jobs.runs import NamedConfigs
from app.jobs.updates import Fold, Update
from app.jobs.visitor import Session, visitor_id
from app.playground.conclusion import conclusion
from app.playground.run_press import PressHandlers, RunPress
from app.ui.widgets import SKIP
from app.views import player_feed, tiles
from app.views.repeats import medians
from engine.config import RunConfig
from engine.errors import BadInput, EngineError, quantity
from engine.trace.branch import config_of
from engine.trace.trace import Trace, with_branch

COUNTS = (3, 5)  # odd, so that the median is one of the runs
AGAIN = "Measure both again"


class RepeatHandlers(PressHandlers):
    def begin(self, request: gr.Request, press: RunPress) -> list:
        """Returns Stop, and the button, which says what goes on."""
        press.begin_if_free(self.service.runs, visitor_id(request))
        return [gr.update(interactive=True), gr.update(value="Measuring…", interactive=False)]

    def end(self, press: RunPress) -> list:
        """Returns Stop, the button, and the session with the medians."""
        button = gr.update(value=AGAIN, interactive=True)
        if not press.is_over:  # a run goes on, or has replaced the repeats
            return [SKIP, button, SKIP]
        return [gr.update(interactive=False), button, press.take_result() or SKIP]

    def repeat(self, press: RunPress, session: Session, count: int, request: gr.Request) -> Iterator[str]:
        """Measures ``count`` times. The run on the stage is the first if measured here; the medians take its place."""
        if not press.is_waiting:
            yield player_feed.say("error", "Wait until the run has ended, then measure it again.")
            return
        visitor, session = visitor_id(request), press.newest(session)
        yield from press.stream(self.service.runs, visitor, lambda mine: self._repeat(mine, press, session, count))

    def _repeat(self, request: VisitorRequest, press: RunPress, session: Session, count: int) -> Iterator[str]:
        try:
            if count not in COUNTS:
                raise BadInput(f"Repeats must be {' or '.join(map(str, COUNTS))}.")
            config = session.trace and _drafting(config_of(session.trace))
            is_ours = config is not None and self._is_of_this_server(session, config)
            if tiles.speedup(session.trace, session.baseline) is None:
                raise BadInput("Press Run first: there is no finished comparison to measure again.")
            configs = repeat_configs(config, count, 2 if is_ours else 1)
            fold, timed_out = Fold(configs), False
            yield player_feed.say("progress", "Measuring again")
            with closing(self.service.runs.run(request, configs, again=True)) as updates:
                for update in updates:
                    fold, timed_out = update.fold, timed_out or update.timed_out
                    yield player_feed.say("progress", _progress(update, count))
        except EngineError as error:
            yield player_feed.say("error", str(error))
            return
        measured = [*fold.traces().values()]
        pairs = [(session.trace, session.baseline)] if is_ours else []  # a file's run was measured elsewhere
        pairs += zip(measured[::2], measured[1::2], strict=True)
        complete = [pair for pair in pairs if tiles.speedup(*pair) is not None]
        ended = f"The time ended: a measurement may take up to {self.service.limits.seconds} s here."
        early = (ended if timed_out else "Stopped.") if len(complete) < len(pairs) else ""
        if len(complete) > 1:
            yield self._medians(press, session.trace, complete, early, is_ours)
        else:
            yield player_feed.say("quiet", f"{early} The first measurement stays.")

    def _is_of_this_server(self, session: Session, config: RunConfig) -> bool:
        """Returns whether the first measurement was made here, not brought in a file."""
        known = self.service.runs.results.get(with_baseline(config))
        first = replace(session.trace, branch=None), session.baseline
        return known is not None and first == (known.run, known.baseline)

    def _medians(self, press: RunPress, first: Trace, pairs: list, early: str, is_ours: bool) -> str:
        """Shows the medians of (run, baseline) pairs and their spread, and why they are ``early``. With ``is_ours``
        they are cached for the next visitor, too."""
        median, config = medians(pairs), config_of(first)
        run, baseline, how = median.run, median.baseline, {"how": median.how, "spread": median.spread}
        press.session, key = Session(_with_branch_of(run, first), baseline, how), with_baseline(config)
        if is_ours:
            traces = {"run": run, "baseline": baseline}
            self.service.runs.results.put(key, RecordedRun(traces, time.time(), how))
        kind, words = conclusion(run, baseline, **how)
        text = player_feed.complete(uuid.uuid4().hex, press.session.trace) + player_feed.numbers(run, baseline, **how)
        return text + player_feed.status(kind, f"{early} {words} {median.words}".strip())


def _with_branch_of(run: Trace, first: Trace) -> Trace:
    """Adds the branch of the first measurement to the run, where both wrote the same text up to there."""
    try:
        return with_branch(run, first.branch) if first.branch else run
    except BadInput:
        return run


def repeat_configs(config: RunConfig, count: int, first: int) -> NamedConfigs:
    """Returns the request and its baseline in turn, from the ``first`` measurement to the last."""
    pairs = [(f"run {n}", config, f"baseline {n}", config.baseline()) for n in range(first, count + 1)]
    return tuple(named for run, drafting, plain, baseline in pairs for named in ((run, drafting), (plain, baseline)))


def _drafting(config: RunConfig) -> RunConfig:
    if config.is_plain:
        raise BadInput("This was plain decoding; there is nothing to measure again.")
    return config


def _progress(update: Update, count: int) -> str:
    if update.progress:
        return update.progress.message
    name, turn = update.name.rsplit(" ", 1)
    doing = "with drafting" if name == "run" else "without"
    return f"Measuring again, {turn} of {count}, {doing}: {quantity(update.fold.tokens[update.name], 'token')}"
