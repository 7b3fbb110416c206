"""The race on screen, measured again: its lanes in turn, so that a machine that slows down slows both."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import gradio as gr

from app.handlers import Lane
from app.service import Service, baseline_of, is_baseline
from app.session import Session, visitor
from app.views import charts, race, summary
from app.views.notice import notice
from app.views.repeats import medians
from engine.config import RunConfig, SamplingParams
from engine.errors import BadInput, EngineError

SKIP = gr.skip()
COUNTS = (3, 5)  # odd, so that the median is one of the runs


class Again(NamedTuple):
    """The outputs of a repeated race, by name."""

    tiles: Any = SKIP
    notice: Any = SKIP
    race: Any = SKIP
    charts: Any = SKIP
    stop: Any = SKIP


class Repeats:
    def __init__(self, service: Service):
        self.service = service

    def measure(self, session: Session, count: int, request: gr.Request) -> Iterator[Again]:
        """The run on screen counts as the first of ``count``; its text and its numbers stay."""
        try:
            if count not in COUNTS:
                raise BadInput(f"A race is measured {' or '.join(map(str, COUNTS))} times.")
            if self.service.busy(visitor(request)):
                raise BadInput("A run is in progress here; let it end, then measure it again.")
            if summary.speedup(session.trace, session.baseline) is None:
                raise BadInput("There is no whole race to measure again yet; press Run first.")
            yield from self._measure(session, count, request)
        except EngineError as error:
            yield Again(notice=notice("error", str(error)), stop=gr.update(interactive=False))

    def _measure(self, session: Session, count: int, request: gr.Request) -> Iterator[Again]:
        config = asked(session)
        lanes = [(f"{lane} {turn}", each) for turn in range(2, count + 1)
                 for lane, each in (("run", config), ("baseline", baseline_of(config)))]  # fmt: skip
        yield Again(notice=notice("progress", "Measuring again"), stop=gr.update(interactive=True))
        done = {name: Lane() for name, _ in lanes}
        with closing(self.service.measure(visitor(request), tuple(lanes), again=True)) as updates:
            for update in updates:
                done[update.lane].add(update.events)
                yield Again(notice=notice("progress", _progress(update, done[update.lane], count)))
        traces = [done[name].trace for name, _ in lanes]
        pairs = [(session.trace, session.baseline), *zip(traces[::2], traces[1::2], strict=True)]
        yield self._told(pairs, request)

    def _told(self, pairs: list, request: gr.Request) -> Again:
        if any(summary.speedup(*pair) is None for pair in pairs):
            if self.service.busy(visitor(request)):  # a new run has taken over, and the screen is its own
                return Again()
            words = "Stopped. The first measurement stays on screen."
            return Again(notice=notice("quiet", words), stop=gr.update(interactive=False))
        found = medians(pairs)
        run, plain = found.run, found.baseline
        kind = {"faster": "good", "slower": "slow", "level": "quiet"}[summary.tone(summary.speedup(run, plain))]
        return Again(
            tiles=summary.tiles(run, plain, how=found.how),
            notice=notice(kind, f"{summary.verdict(run, plain, how=found.how)} {found.spread}"),
            race=race.race(run, plain, found.spread),
            charts=charts.whole(run, plain, found.how),
            stop=gr.update(interactive=False),
        )


def asked(session: Session) -> RunConfig:
    """The request that the run on screen answers. An imported trace may claim anything, so it is validated anew."""
    try:
        settings = dict(session.trace.started.config)
        sampling = SamplingParams(**settings.pop("sampling", {}))
        config = RunConfig(**{**settings, "sampling": sampling, "pair": session.trace.started.pair})
    except TypeError as error:
        raise BadInput("The settings of this trace are not all there, so it cannot be measured again.") from error
    if is_baseline(config):
        raise BadInput("This was plain decoding; there is no race to measure again.")
    return replace(config, trace=True)


def _progress(update, lane: Lane, count: int) -> str:
    if update.stage:
        return update.stage.message
    name, turn = update.lane.rsplit(" ", 1)
    doing = "with drafting" if name == "run" else "without"
    return f"Measuring again, {turn} of {count}, {doing}: {lane.tokens} tokens"
