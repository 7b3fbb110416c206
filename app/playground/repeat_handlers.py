"""Repeats the measurements of the run on the stage: with drafting and without in turn.

Because a machine that slows down then slows both.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import closing

import gradio as gr

from app.jobs.baseline import baseline_of, is_baseline, with_baseline
from app.jobs.result_cache import RecordedRun
from app.jobs.runs import NamedConfigs
from app.jobs.service import Service
from app.jobs.updates import Update
from app.jobs.visitor import Session, visitor_id
from app.playground.press import Press
from app.playground.run_handlers import conclusion
from app.ui.widgets import SKIP
from app.views import player_feed, tiles
from app.views.repeats import medians
from engine.config import RunConfig
from engine.errors import BadInput, EngineError
from engine.trace.branch import request_of
from engine.trace.trace import Trace, TraceBuilder, with_branch

COUNTS = (3, 5)  # odd, so that the median is one of the runs
AGAIN = "Measure both again"


class RepeatHandlers:
    def __init__(self, service: Service):
        self.service = service

    def begin(self, press: Press) -> list:
        """Stop, and the button, which says what goes on."""
        press.is_stopped, press.session = False, None
        return [gr.update(interactive=True), gr.update(value="Measuring…", interactive=False)]

    def end(self, press: Press) -> list:
        """Stop, the button, and the session with the medians."""
        button = gr.update(value=AGAIN, interactive=True)
        if press.is_streaming:  # a run has replaced the repeats
            return [SKIP, button, SKIP]
        return [gr.update(interactive=False), button, press.session or SKIP]

    def repeat(self, press: Press, session: Session, count: int, request: gr.Request) -> Iterator[str]:
        """The run on the stage counts as the first of ``count``; the medians take its place."""
        visitor = visitor_id(request)
        try:
            if count not in COUNTS:
                raise BadInput(f"Repeats must be {' or '.join(map(str, COUNTS))}.")
            if self.service.runs.is_busy(visitor):
                raise BadInput("Let the run in progress end, then measure it again.")
            config = session.trace and _drafting(request_of(session.trace))
            if tiles.speedup(session.trace, session.baseline) is None:
                raise BadInput("Press Run first: there is no finished comparison to measure again.")
            configs = repeated(config, count)
        except EngineError as error:
            yield player_feed.say("error", str(error))
            return
        with press.streaming():
            yield from self._repeat(visitor, press, session, configs, count)

    def _repeat(self, visitor: str, press: Press, session: Session, configs: NamedConfigs, count: int) -> Iterator[str]:
        builders = {name: TraceBuilder() for name, _ in configs}
        yield player_feed.say("progress", "Measuring again")
        try:
            with closing(self.service.runs.run(visitor, configs, again=True)) as updates:
                for update in updates:
                    if press.is_stopped:  # perhaps before the service knew of this request
                        self.service.runs.stop(visitor)
                    builders[update.name].add(update.events)
                    yield player_feed.say("progress", _progress(update, builders[update.name], count))
        except EngineError as error:
            yield player_feed.say("error", str(error))
            return
        traces = [builders[name].trace for name, _ in configs]
        pairs = [(session.trace, session.baseline), *zip(traces[::2], traces[1::2], strict=True)]
        if all(tiles.speedup(*pair) is not None for pair in pairs):
            yield self._medians(press, configs[0][1], pairs)
        elif not self.service.runs.is_busy(visitor):  # otherwise a new run owns the screen
            yield player_feed.say("quiet", "Stopped. The first measurement stays.")

    def _medians(self, press: Press, config: RunConfig, pairs: list) -> str:
        """The medians of (run, baseline) pairs and their spread, also cached for the next visitor."""
        median = medians(pairs)
        run, baseline, how = median.run, median.baseline, {"how": median.how, "spread": median.spread}
        press.session, key = Session(_with_branch_of(run, pairs[0][0]), baseline), with_baseline(config)
        if self.service.runs.results.get(key):  # measured here, not brought in a file
            traces = {"run": run, "baseline": baseline}
            self.service.runs.results.put(key, RecordedRun(traces, time.time(), how))
        kind, words = conclusion(run, baseline, **how)
        text = player_feed.complete(uuid.uuid4().hex, press.session.trace) + player_feed.numbers(run, baseline, **how)
        return text + player_feed.status(kind, f"{words} {median.words}")


def _with_branch_of(run: Trace, first: Trace) -> Trace:
    """The run with the branch of the first measurement, where it wrote the same text up to there."""
    try:
        return with_branch(run, first.branch) if first.branch else run
    except BadInput:
        return run


def repeated(config: RunConfig, count: int) -> NamedConfigs:
    """The request and its baseline in turn, from the second measurement to the last."""
    pairs = [(f"run {n}", config, f"baseline {n}", baseline_of(config)) for n in range(2, count + 1)]
    return tuple(named for run, drafting, plain, baseline in pairs for named in ((run, drafting), (plain, baseline)))


def _drafting(config: RunConfig) -> RunConfig:
    if is_baseline(config):
        raise BadInput("This was plain decoding; there is nothing to measure again.")
    return config


def _progress(update: Update, builder: TraceBuilder, count: int) -> str:
    if update.progress:
        return update.progress.message
    name, turn = update.name.rsplit(" ", 1)
    doing = "with drafting" if name == "run" else "without"
    return f"Measuring again, {turn} of {count}, {doing}: {builder.tokens} tokens"
