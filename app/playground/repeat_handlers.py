"""Repeats the measurements of the run on screen: drafting and plain in turn, so that a slowing machine slows both."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr

from app.jobs.service import NamedConfigs, Service, Update, baseline_of, is_baseline
from app.jobs.visitor import Session, visitor_id
from app.playground.press import Press
from app.playground.run_handlers import NOTICE_KINDS
from app.ui.widgets import SKIP, outputs
from app.views import charts, race, tiles
from app.views.notice import notice
from app.views.repeats import medians
from engine.config import RunConfig, SamplingParams
from engine.errors import BadInput, EngineError
from engine.trace.trace import TraceBuilder

COUNTS = (3, 5)  # odd, so that the median is one of the runs
RepeatOutputs = outputs("tiles", "notice", "race", "charts")


class RepeatHandlers:
    def __init__(self, service: Service):
        self.service = service

    def begin(self, press: Press) -> Any:
        """Enables Stop."""
        press.is_stopped = False
        return gr.update(interactive=True)

    def end(self, press: Press) -> Any:
        """Disables Stop, unless a run has replaced the repeats."""
        return SKIP if press.is_streaming else gr.update(interactive=False)

    def repeat(self, press: Press, session: Session, count: int, request: gr.Request) -> Iterator[RepeatOutputs]:
        """The run on screen counts as the first of ``count``; its text and its numbers stay."""
        visitor = visitor_id(request)
        try:
            if count not in COUNTS:
                raise BadInput(f"Repeats must be {' or '.join(map(str, COUNTS))}.")
            if self.service.is_busy(visitor):
                raise BadInput("Let the run in progress end, then measure it again.")
            if tiles.speedup(session.trace, session.baseline) is None:
                raise BadInput("Press Run first: there is no finished race to measure again.")
            configs = repeated(request_of(session), count)
        except EngineError as error:
            yield RepeatOutputs(notice=notice("error", str(error)))
            return
        with press.streaming():
            yield from self._repeat(visitor, press, session, configs, count)

    def _repeat(
        self, visitor: str, press: Press, session: Session, configs: NamedConfigs, count: int
    ) -> Iterator[RepeatOutputs]:
        builders = {name: TraceBuilder() for name, _ in configs}
        yield RepeatOutputs(notice=notice("progress", "Measuring again"))
        try:
            with closing(self.service.run(visitor, configs, again=True)) as updates:
                for update in updates:
                    if press.is_stopped:  # perhaps before the service knew of this request
                        self.service.stop(visitor)
                    builders[update.name].add(update.events)
                    yield RepeatOutputs(notice=notice("progress", _progress(update, builders[update.name], count)))
        except EngineError as error:
            yield RepeatOutputs(notice=notice("error", str(error)))
            return
        traces = [builders[name].trace for name, _ in configs]
        pairs = [(session.trace, session.baseline), *zip(traces[::2], traces[1::2], strict=True)]
        if all(tiles.speedup(*pair) is not None for pair in pairs):
            yield summary(pairs)
        elif not self.service.is_busy(visitor):  # otherwise a new run owns the screen
            yield RepeatOutputs(notice=notice("quiet", "Stopped. The first measurement stays on screen."))


def summary(pairs: list) -> RepeatOutputs:
    """The medians of (run, baseline) pairs, and their spread."""
    median = medians(pairs)
    run, baseline = median.run, median.baseline
    words = f"{tiles.verdict(run, baseline, how=median.how)} {median.spread}"
    return RepeatOutputs(
        tiles=tiles.tiles(run, baseline, how=median.how),
        notice=notice(NOTICE_KINDS[tiles.tone(tiles.speedup(run, baseline))], words),
        race=race.race(run, baseline, median.spread),
        charts=charts.complete(run, baseline, median.how),
    )


def repeated(config: RunConfig, count: int) -> NamedConfigs:
    """The request and its baseline in turn, from the second measurement to the last."""
    pairs = [(f"run {n}", config, f"baseline {n}", baseline_of(config)) for n in range(2, count + 1)]
    return tuple(named for run, drafting, plain, baseline in pairs for named in ((run, drafting), (plain, baseline)))


def request_of(session: Session) -> RunConfig:
    """The request of the run on screen. Validated anew, because an uploaded trace may hold anything."""
    try:
        settings = dict(session.trace.started.config)
        sampling = SamplingParams(**settings.pop("sampling", {}))
        config = RunConfig(**{**settings, "sampling": sampling, "pair": session.trace.started.pair})
    except TypeError as error:
        raise BadInput("The settings of this trace are incomplete, so it cannot be measured again.") from error
    if is_baseline(config):
        raise BadInput("This was plain decoding; there is no race to measure again.")
    return replace(config, trace=True)


def _progress(update: Update, builder: TraceBuilder, count: int) -> str:
    if update.progress:
        return update.progress.message
    name, turn = update.name.rsplit(" ", 1)
    doing = "with drafting" if name == "run" else "without"
    return f"Measuring again, {turn} of {count}, {doing}: {builder.tokens} tokens"
