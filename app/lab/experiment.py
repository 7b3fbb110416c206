"""Runs an experiment on the page: Run and Stop, errors as sentences, files at the end, and a second press.

Three events follow a press: the buttons change, a generator streams notices and pictures, and files appear. A result is
kept in a PageState, which is only ever an input, because as an output it would cost the measured machine time at each
update. Until a visitor has a result of their own, the page shows a recorded one and says so.
"""

import re
import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gradio as gr

from app.jobs import updates
from app.jobs.press import Press
from app.jobs.request import VisitorRequest
from app.jobs.runs import NO_EXPERIMENTS, Work
from app.jobs.service import Service
from app.jobs.visitor import lab_visitor_id
from app.lab.controls import title_choices
from app.lab.eta import Eta
from app.lab.recorded import FOLDER, Recorded
from app.lab.work_units import Again, Points, Step, work_units
from app.playground.trace_files import Exports
from app.ui.widgets import SKIP, run_and_stop
from app.views.notice import notice, over_old
from engine.config import RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.trace.events import Progress


@dataclass
class PageState(Press):
    """One page's newest press in an experiment, with its newest ``result``."""

    result: Any = None


def define_outputs(*names: str) -> Any:
    """Makes the named tuple of what an experiment streams: a notice, ``names``, and a recorded result's mark."""
    fields = ("notice", *names, "mark")
    return namedtuple("Outputs", fields, defaults=[SKIP] * len(fields))


class Experiment:
    """Handlers that all experiments share. ``RECORDED``: the file of the recorded result, as the page saves it."""

    Outputs: Any  # the type that `define_outputs` returned
    RECORDED: str
    read_saved: Callable[[bytes], Recorded]  # reads that file
    RUN = "Run"  # the button's label
    FILES = 2
    REMAINS = "The points so far stay."  # said after an error
    FIRST = "the first point was measured"  # a stop before it keeps nothing
    AFTER_RELOAD = "to run this again"
    PREFERRED: Sequence[str] = ()  # methods in the order in which a list offers them

    def __init__(self, service: Service):
        self.service, self.exports = service, Exports()

    def files(self, result) -> Mapping[str, str | bytes]:
        """Returns the content of each file by its name; empty where there is nothing to save."""
        raise NotImplementedError

    def where(self) -> dict[str, str]:
        """Returns the device and precision of the loaded engine, all versions, and the time, for saved files."""
        engine, now = self.service.engine, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        known = {f"{name}_version": version for name, version in engine.versions().items()}
        return {"device": engine.device() or "", "precision": engine.precision() or "", **known, "saved": now}

    def show(self, result):
        """Returns the outputs that show a result after an error or another experiment has ended the work."""
        return self.Outputs()

    # ── the result that the page opens with ──

    def verdict(self, result) -> str:
        """Says in a sentence what a result has shown."""
        raise NotImplementedError

    def doubts(self, result) -> str:
        """Warns of noise and of a busy machine, in the words of `engine.trace.speedup_words.doubts`. Returns an empty
        text for a sound result, and where nothing was timed."""
        return ""

    @cached_property
    def opening_result(self) -> Recorded | None:
        """None before one is recorded."""
        file = FOLDER / self.RECORDED
        return self.read_saved(file.read_bytes()) if file.exists() else None

    def opening(self) -> Any:
        """Returns the outputs that show the recorded result, with its mark."""
        if self.opening_result is None:
            return self.Outputs(*[""] * len(self.Outputs()))
        mark = notice("recorded", self._recorded_words(self.opening_result))
        return self.draw_opening(self.opening_result.result)._replace(mark=mark)

    def draw_opening(self, result) -> Any:
        """Returns the outputs that show a result on a page without another."""
        return self.show(result)

    def _recorded_words(self, recorded: Recorded) -> str:
        """Says that the result is recorded, when and where, and its verdict."""
        models = f" with {self.service.offer.titles.get(recorded.pair, recorded.pair)}" if recorded.pair else ""
        where = ", ".join(filter(None, (recorded.device, recorded.precision)))
        words = f"Recorded on {recorded.day}{models}{f' on {where}' if where else ''}."
        return f"{words} {self.verdict(recorded.result)}".rstrip()

    def restore(self, values: Sequence) -> Any:
        """Returns the form as it was before the page was reloaded, and the mark, which says so."""
        try:
            form = self.refill(values)
        except (EngineError, LookupError):  # its models are no longer here
            return SKIP
        words = "Your settings are back."
        if self.service.runs.offers_experiments:
            words += f" Press {self.RUN} {self.AFTER_RELOAD}."
        if not self.opening_result:
            return [*form, notice("quiet", words)]
        return [*form, notice("recorded", f"{words} {self._recorded_words(self.opening_result)}")]

    def refill(self, values: Sequence) -> list:
        """Returns an update for each control of the form. ``values``: as the browser kept them."""
        return [gr.update(value=value) for value in values]

    def on_page(self, state: PageState) -> Any:
        """Returns the result that the page shows: the visitor's own, or else the recorded one."""
        return self.opening_result.result if state.result is None and self.opening_result else state.result

    def early_stop(self, state: PageState) -> str:
        """Returns the notice of a press that was stopped before it drew anything."""
        words = f"Stopped before {self.FIRST}, so nothing is kept of it. {self._words_on_earlier(state)}"
        return notice("quiet", words.rstrip())

    def _words_on_earlier(self, state: PageState) -> str:
        """Says which earlier result the page still shows; empty if it shows none."""
        if state.result is not None:
            return "Below is still the earlier result."
        return "Below is still the recorded example." if self.opening_result else ""

    def _without_mark(self, update) -> Any:
        """Takes the mark away as soon as anything else is drawn than the recorded result."""
        is_drawn = any(value is not SKIP for value in update[1:])
        return update._replace(mark=notice("quiet")) if is_drawn else update

    def _say_what_is_old(self, state: PageState, updates: Iterable) -> Iterator:
        """Adds to each notice that the page shows an earlier result, until something is drawn."""
        words = self._words_on_earlier(state)
        for update in updates:
            if any(value is not SKIP for value in update[1:]):
                words = ""
            has_notice = words and update.notice is not SKIP
            yield update._replace(notice=over_old(update.notice, words)) if has_notice else update

    # ── the pair ──

    def methods(self, pair: str) -> list[str]:
        methods, last = self.service.offer.methods(pair), len(self.PREFERRED)
        return sorted(methods, key=lambda m: self.PREFERRED.index(m) if m in self.PREFERRED else last)

    def drafting_methods(self, pair: str) -> list[str]:
        return [method for method in self.methods(pair) if method != "none"]

    def pair_notice(self, pair: str) -> str:
        """Says why the pair cannot run here; quiet where it can. Loads nothing."""
        reasons = self.service.offer.problems(pair)
        return notice("error", " ".join(reasons)) if reasons else notice("quiet")

    # ── one press ──

    def begin(self, request: gr.Request, state: PageState) -> list:
        state.begin(self.service.runs, lab_visitor_id(request))
        running = gr.update(value="Running…")  # not disabled: that would drop the keyboard's focus
        return [running, gr.update(interactive=True), *self._links([])]

    def stream(self, request: gr.Request, state: PageState, updates: Callable[[VisitorRequest], Iterator]) -> Iterator:
        """Yields what ``updates`` yields for a request. An error becomes the last notice, and so does the news that
        another experiment of this visitor has replaced it."""
        try:
            shown = self._say_what_is_old(state, state.stream(self.service.runs, lab_visitor_id(request), updates))
            yield from map(self._without_mark, shown)
        except EngineError as error:
            words = f"{error} {self.REMAINS}" if state.result and not isinstance(error, BadInput) else str(error)
            yield self.show(state.result)._replace(notice=notice("error", words))
        if state.request is not None and state.request.is_replaced:
            words = f"Another experiment of yours took its place. {self.REMAINS if state.result else ''}".rstrip()
            yield self.show(state.result)._replace(notice=notice("quiet", words))

    def reports(self, request: VisitorRequest, work: Iterable[Work], config: RunConfig | None) -> Iterator[Any]:
        """Yields the engine's progress notes and what the work reports."""
        for report in self.service.runs.experiment(request, work, config):
            yield report if isinstance(report, Progress) else report.value

    def end_lost(self, state: PageState) -> list:
        """Returns what ``end`` returns, for a stream that never reached the server."""
        state.close_orphan(self.service.runs)
        return self.end(state)

    def end(self, state: PageState) -> list:
        """Returns the buttons and the files, which are written now; otherwise a click would download earlier ones."""
        if not state.is_over:  # a second press is at work
            return [SKIP] * (2 + self.FILES)
        return [gr.update(value=self.RUN), gr.update(interactive=False), *self._links(self._write_files(state.result))]

    def stop(self, request: gr.Request) -> None:
        """Ends the work with the round under way; the running handler then shows the results so far."""
        self.service.runs.stop(lab_visitor_id(request))

    def _write_files(self, result) -> list[str]:
        try:
            texts = self.files(result) if result else {}
            return self.exports.texts(texts) if texts else []
        except (OSError, BadInput) as error:  # a full disk takes the files away, not the page
            reason = error.strerror if isinstance(error, OSError) else str(error)
            gr.Warning(f"The files could not be written on the server. {reason}".rstrip())
            return []

    def _links(self, paths: Sequence[str]) -> list:
        links = [*paths, *[None] * self.FILES][: self.FILES]
        return [gr.update(value=path, interactive=path is not None) for path in links]


class Measurement(Experiment):
    """An experiment of many points. It shows those measured before at once, and measures one more in each unit."""

    NOUN = "Point"  # one part of a Step
    AFTER_RELOAD = "to measure: what was finished is not measured again"
    result_type: type  # made of a pair and a plan; empty without points
    # Made of an engine, a pair, a plan, and whether to forget the points measured before.
    points_type: Callable[..., Points]

    def parse(self, values: Sequence) -> tuple[RunConfig, Any]:
        """Returns a run with the largest settings, which is checked against the server's limits, and the plan.
        ``values``: those of the controls. Raises BadInput that names the control."""
        raise NotImplementedError

    def known_result(self, state: PageState, config: RunConfig, plan) -> Any:
        """Returns what the page has of this plan, or an empty result. Raises Unavailable where a method cannot run."""
        for method in plan.methods:
            if reasons := self.service.offer.problems(config.pair, method):
                raise Unavailable(" ".join(reasons))
        return self.result_type(config.pair, plan)

    def is_known(self, result, plan) -> bool:
        """Returns whether no engine is needed, because the page has every point."""
        return False

    def open_points(self, latest: Callable[[], Any], config: RunConfig, plan) -> Callable[[Any, bool], Points]:
        """Returns the function from an engine to the points, for work_units. ``latest`` returns the newest result."""
        return lambda engine, again: self.points_type(engine, config.pair, plan, again)

    def draw(self, result, values: Sequence) -> Any:
        """Returns the outputs that show a result. ``values``: those of the controls, none for the recorded one."""
        raise NotImplementedError

    def draw_opening(self, result) -> Any:
        return self.draw(result, ())

    def finding(self, result, is_new: bool) -> str:
        """Returns the notice for a complete result; ``is_new``: some of it was measured now."""
        raise NotImplementedError

    def run(self, request: gr.Request, state: PageState, *values) -> Iterator:
        yield from self.stream(request, state, lambda mine: self._run(mine, state, values))

    def start_over(self, request: gr.Request, state: PageState, *values) -> Iterator:
        """Runs again after forgetting every point that was measured before."""
        yield from self.stream(request, state, lambda mine: self._run(mine, state, values, "all"))

    def replace_noise(self, request: gr.Request, state: PageState, *values) -> Iterator:
        """Runs again after forgetting the points whose speedup is larger than is possible."""
        yield from self.stream(request, state, lambda mine: self._run(mine, state, values, "noise"))

    def _run(self, request: VisitorRequest, state: PageState, values: Sequence, again: Again | None = None) -> Iterator:
        config, plan = self.parse(values)
        result = self.known_result(state, config, plan)
        yield self.Outputs(notice("progress", "Starting"))
        if not again and self.is_known(result, plan):
            yield self.draw(state.result, values)._replace(notice=self.finding(state.result, is_new=False))
            return
        latest, parts, eta, due = None, 0, Eta(), 0.0
        units = work_units(self.open_points(lambda: result, config, plan), lambda: latest, again)
        for report in self.reports(request, units, config):
            if isinstance(report, Progress):
                yield self.Outputs(notice("progress", report.message, report.fraction))
                continue
            latest = report
            eta.add(latest)
            update = self.Outputs()
            if latest.result is not None:
                result, parts = latest.result, int(latest.done)
                if result:  # until there is a point, the page keeps what it shows
                    state.result = result
                    update = self.draw(result, values)
            if time.monotonic() >= due:
                yield update._replace(notice=self._progress(latest, eta))
                due = time.monotonic() + updates.SECONDS_BETWEEN_UPDATES
        if latest and latest.is_complete:
            words = self.finding(state.result, is_new=True)
        else:
            words = notice("quiet", self._stop_words(latest, parts)) if latest and result else self.early_stop(state)
        last = self.draw(result, values) if latest and result else self.Outputs()
        yield last._replace(notice=words)

    def _progress(self, step: Step, eta: Eta) -> str:
        doing = f": {step.doing}" if step.doing else ""
        return notice("progress", f"{self._place(step)}{doing}{eta.words()}", step.done / step.of)

    def _place(self, step: Step) -> str:
        return f"{self.NOUN} {min(int(step.done) + 1, step.of)} of {step.of}"

    def _stop_words(self, step: Step, parts: int) -> str:
        """Says how many ``parts`` are kept; otherwise the next run would seem to count backwards."""
        return f"Stopped at {self._place(step).lower()}, with {parts} kept. {self.REMAINS}"

    def end(self, state: PageState) -> list:
        """Returns the buttons, the files, and the button that measures again, once there is something measured."""
        ends = super().end(state)
        return [*ends, SKIP if ends[0] is SKIP else gr.update(interactive=bool(state.result))]

    # ── the form ──

    def buttons(self, name: str) -> tuple[gr.Button, gr.Button]:
        """Lays out Run and Stop. Where this server refuses experiments, Run is disabled and a sentence says why; the
        recorded result can still be looked at."""
        can_run = self.service.runs.offers_experiments
        run, stop = run_and_stop(self.RUN, name, can_run)
        if not can_run:
            words = re.sub("`(.+?)`", r"<code>\1</code>", NO_EXPERIMENTS)
            gr.HTML(f'<p class="sl-no-experiments" role="note">{words}</p>', apply_default_css=False)
        return run, stop

    def extent(self, pair: str, plan) -> str:
        """Returns how much work a plan is."""
        raise NotImplementedError

    def size(self, *values) -> str:
        if not self.service.runs.offers_experiments:
            return notice("quiet")  # the buttons say why
        try:
            config, plan = self.parse(values)
        except EngineError as error:
            return notice("quiet", str(error))
        return notice("quiet", self.extent(config.pair, plan))

    def select_pair(self, pair: str, chosen: Sequence[str]) -> Any:
        """Lists the methods of a pair; those that it shares with the last one keep their tick."""
        methods = self.drafting_methods(pair)
        common = [method for method in chosen if method in methods]
        return gr.update(choices=title_choices(methods), value=common or methods[: bool(chosen)])
