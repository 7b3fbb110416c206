"""Runs an experiment on the page: Run and Stop, errors as sentences, files at the end, and a second press.

Three events follow a press: the buttons change, a generator streams notices and pictures, and files appear. A result is
kept in a PageState, which is only ever an input, because as an output it would cost the measured machine time at each
update. Until a visitor has a result of their own, the page shows a recorded one and says so.
"""

import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import gradio as gr

from app.jobs import updates
from app.jobs.press import Press
from app.jobs.request import VisitorRequest
from app.jobs.runs import Work
from app.jobs.service import Service
from app.jobs.visitor import lab_visitor_id
from app.lab.form import Field, read, title_choices
from app.lab.recorded import FOLDER, Recorded
from app.lab.work_units import Again, Eta, Step, work_units
from app.playground.trace_files import Exports
from app.ui.widgets import QUIET, SKIP
from app.views.notice import notice, over_old
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.trace.events import Progress

if TYPE_CHECKING:
    from app.lab.layout import Layout


@dataclass
class PageState(Press):
    """One page's newest press in an experiment, with its newest ``result``."""

    result: Any = None


def define_outputs(*names: str) -> Any:
    """Makes the named tuple of what an experiment streams: a notice, ``names``, and a recorded result's mark."""
    fields = ("notice", *names, "mark")
    return namedtuple("Outputs", fields, defaults=[SKIP] * len(fields))


class Experiment:
    """A tab of the Lab: its form, what a press streams, and its files. A subclass says what differs."""

    NAME: str  # begins the ids of its elements
    Outputs: Any  # the type that `define_outputs` returned
    RECORDED: str  # the file of the recorded result, as the page saves it
    view: Any  # the module that renders a result: read_saved, draw, verdict, doubts, files
    RUN = "Run"  # the button's label
    FILES: Sequence[tuple[str, str]]  # the id of each button that saves a file, and its label
    REMAINS = "The points so far stay."  # said after an error
    FIRST = "the first point was measured"  # a stop before it keeps nothing
    AFTER_RELOAD = "to run this again"
    WORK = "measurement"  # that has to end before recordings are opened
    PREFERRED: Sequence[str] = ()  # methods in the order in which a list offers them

    def __init__(self, service: Service):
        self.service, self.exports = service, Exports()

    # ── what a subclass says of its own ──

    def form(self) -> list[list[Field]]:
        """Returns the rows of the form."""
        raise NotImplementedError

    def lay_out(self, page: "Layout") -> None:
        """Lays out the tab with the parts of a `Layout`."""
        raise NotImplementedError

    def show_recordings(self, state: PageState, paths: Sequence[str]) -> Any:
        """Returns the outputs that show recordings of a server, in a tab that opens some."""
        raise NotImplementedError

    def updates(self, request: VisitorRequest, state: PageState, values: Sequence, how: Again | None) -> Iterator:
        """Yields the outputs of one press. ``how``: as of `press`."""
        raise NotImplementedError

    # ── the form ──

    @cached_property
    def rows(self) -> list[list[Field]]:
        return self.form()

    @cached_property
    def fields(self) -> list[Field]:
        return [field for row in self.rows for field in row]

    def by_name(self, values: Sequence) -> dict[str, Any]:
        """Returns the values of the form by name, unchecked. ``values``: maybe with the session before them."""
        return {field.name: value for field, value in zip(self.fields, values[-len(self.fields) :], strict=True)}

    def read(self, values: Sequence) -> dict[str, Any]:
        """Returns the values of the form by name. Raises BadInput that names the control."""
        return read(self.fields, values[-len(self.fields) :])

    def restore(self, values: Sequence) -> Any:
        """Returns the form as it was before the page was reloaded, and the mark, which says so."""
        try:
            controls = self.refill(values)
        except (EngineError, LookupError):  # its models are no longer here
            return SKIP
        words = "Your settings are back."
        if self.service.runs.offers_experiments:
            words += f" Press {self.RUN} {self.AFTER_RELOAD}."
        if not self.opening_result:
            return [*controls, notice("quiet", words)]
        return [*controls, notice("recorded", f"{words} {self._recorded_words(self.opening_result)}")]

    def refill(self, values: Sequence) -> list:
        """Returns an update for each control of the form. ``values``: as the browser kept them."""
        form = self.by_name(values)
        return list(({name: gr.update(value=value) for name, value in form.items()} | self.lists(form)).values())

    def lists(self, form: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the updates of the lists that depend on other controls. ``form``: the values that the browser kept,
        by name. Raises LookupError or EngineError where they can't be offered."""
        return {}

    def methods(self, pair: str) -> list[str]:
        methods, last = self.service.offer.methods(pair), len(self.PREFERRED)
        return sorted(methods, key=lambda m: self.PREFERRED.index(m) if m in self.PREFERRED else last)

    def drafting_methods(self, pair: str) -> list[str]:
        return [method for method in self.methods(pair) if method != "none"]

    def select_pair(self, pair: str, chosen: Sequence[str]) -> Any:
        """Lists the methods of a pair; those that it shares with the last one keep their tick."""
        methods = self.drafting_methods(pair)
        common = [method for method in chosen if method in methods]
        return gr.update(choices=title_choices(methods), value=common or methods[: bool(chosen)])

    def pair_notice(self, pair: str) -> str:
        """Says why the pair cannot run here; quiet where it can. Loads nothing."""
        reasons = self.service.offer.problems(pair)
        return notice("error", " ".join(reasons)) if reasons else notice("quiet")

    # ── the result that the page opens with ──

    @cached_property
    def opening_result(self) -> Recorded | None:
        """None before one is recorded."""
        file = FOLDER / self.RECORDED
        return self.view.read_saved(file.read_bytes()) if file.exists() else None

    def opening(self) -> Any:
        """Returns the outputs that show the recorded result, with its mark."""
        if self.opening_result is None:
            return self.Outputs(*[""] * len(self.Outputs()))
        mark = notice("recorded", self._recorded_words(self.opening_result))
        return self.draw(self.opening_result.result)._replace(mark=mark)

    def _recorded_words(self, recorded: Recorded) -> str:
        """Says that the result is recorded, when and where, and its verdict."""
        models = f" with {self.service.offer.titles.get(recorded.pair, recorded.pair)}" if recorded.pair else ""
        where = ", ".join(filter(None, (recorded.device, recorded.precision)))
        words = f"Recorded on {recorded.day}{models}{f' on {where}' if where else ''}"
        return f"{words}, with settings of its own, not the form's. {self.view.verdict(recorded.result)}".rstrip()

    def draw(self, result, values: Sequence = ()) -> Any:
        """Returns the outputs that show a result. ``values``: the inputs' values, none for the recorded one."""
        return self.Outputs(**self.view.draw(result))

    def on_page(self, state: PageState) -> Any:
        """Returns the result that the page shows: the visitor's own, or else the recorded one."""
        return self.opening_result.result if state.result is None and self.opening_result else state.result

    def _words_on_earlier(self, state: PageState) -> str:
        """Says which earlier result the page still shows; empty if it shows none."""
        if state.result is not None:
            return "Below is still the earlier result."
        return "Below is still the recorded example." if self.opening_result else ""

    def early_stop(self, state: PageState) -> str:
        """Returns the notice of a press that was stopped before it drew anything."""
        words = f"Stopped before {self.FIRST}, so nothing is kept of it. {self._words_on_earlier(state)}"
        return notice("quiet", words.rstrip())

    # ── one press ──

    def begin(self, request: gr.Request, state: PageState) -> list:
        state.begin(self.service.runs, lab_visitor_id(request))
        running = gr.update(value="Running…")  # not disabled: that would drop the keyboard's focus
        return [running, gr.update(interactive=True), *self.links([])]

    def press(self, how: Any = None) -> Callable[..., Iterator]:
        """Returns the handler of a button that starts work. ``how``: what `updates` is to do otherwise than Run."""

        def handler(request: gr.Request, state: PageState, *values) -> Iterator:
            yield from self._stream(request, state, values, how)

        return handler

    def _stream(self, request: gr.Request, state: PageState, values: Sequence, how: Any) -> Iterator:
        """Yields the outputs of a press. An error becomes the last notice, and so does the news that another experiment
        of this visitor has replaced it."""
        words = ""
        try:
            outputs = state.stream(
                self.service.runs, lab_visitor_id(request), lambda mine: self.updates(mine, state, values, how)
            )
            yield from map(self.without_mark, self._say_what_is_old(state, outputs))
        except EngineError as error:
            words = f"{error} {self.REMAINS}" if state.result and not isinstance(error, BadInput) else str(error)
            words = notice("error", words)
        if state.request is not None and state.request.is_replaced:
            replaced = f"Another experiment of yours took its place. {self.REMAINS if state.result else ''}"
            words = notice("quiet", replaced.rstrip())
        if words:
            yield (self.draw(state.result, values) if state.result else self.Outputs())._replace(notice=words)

    def _say_what_is_old(self, state: PageState, outputs: Iterable) -> Iterator:
        """Adds to each notice that the page shows an earlier result, until something is drawn."""
        words = self._words_on_earlier(state)
        for update in outputs:
            if any(value is not SKIP for value in update[1:]):
                words = ""
            has_notice = words and update.notice is not SKIP
            yield update._replace(notice=over_old(update.notice, words)) if has_notice else update

    def without_mark(self, update) -> Any:
        """Takes the mark away as soon as anything else is drawn than the recorded result."""
        is_drawn = any(value is not SKIP for value in update[1:])
        return update._replace(mark=notice("quiet")) if is_drawn else update

    def open_recordings(self, state: PageState, paths: Sequence[str] | None) -> Any:
        """Shows recordings of the visitor's server."""
        try:
            if not state.is_over:
                raise BadInput(f"Let the {self.WORK} end first, then open the recordings again.")
            return self.without_mark(self.show_recordings(state, paths or ()))
        except EngineError as error:
            return self.Outputs(notice("error", str(error)))

    def progress(self, step: Progress) -> Any:
        """Returns the outputs that show a step which keeps the work from starting."""
        return self.Outputs(notice("progress", step.message, step.fraction))

    def reports(self, request: VisitorRequest, work: Iterable[Work], config: RunConfig | None) -> Iterator[Any]:
        """Yields the engine's progress notes and what the work reports."""
        for report in self.service.runs.experiment(request, work, config):
            yield report if isinstance(report, Progress) else report.value

    def stop(self, request: gr.Request) -> None:
        """Ends the work with the round under way; the running handler then shows the results so far."""
        self.service.runs.stop(lab_visitor_id(request))

    def end(self, state: PageState) -> list:
        """Returns the buttons and the files, which are written now; otherwise a click would download earlier ones."""
        if not state.is_over:  # a second press is at work
            return [SKIP] * (2 + len(self.FILES))
        return [gr.update(value=self.RUN), gr.update(interactive=False), *self.links(self._write_files(state.result))]

    def end_lost(self, state: PageState) -> list:
        """Returns what ``end`` returns, for a stream that never reached the server."""
        state.close_orphan(self.service.runs)
        return self.end(state)

    def links(self, paths: Sequence[str]) -> list:
        links = [*paths, *[None] * len(self.FILES)][: len(self.FILES)]
        return [gr.update(value=path, interactive=path is not None) for path in links]

    def _write_files(self, result) -> list[str]:
        try:
            texts = self.files(result) if result else {}
            return self.exports.texts(texts) if texts else []
        except (OSError, BadInput) as error:  # a full disk takes the files away, not the page
            reason = error.strerror if isinstance(error, OSError) else str(error)
            gr.Warning(f"The files could not be written on the server. {reason}".rstrip())
            return []

    def files(self, result) -> Mapping[str, str | bytes]:
        """Returns the content of each file by its name."""
        return self.view.files(result, self.where())

    def where(self) -> dict[str, str]:
        """Returns the device and precision of the loaded engine, all versions, and the time, for saved files."""
        engine, now = self.service.engine, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        known = {f"{name}_version": version for name, version in engine.versions().items()}
        return {"device": engine.device() or "", "precision": engine.precision() or "", **known, "saved": now}


class Measurement(Experiment):
    """An experiment of many points. It shows those measured before at once, and measures one more in each unit."""

    NOUN = "Point"  # one part of a Step
    FILES = (("csv", "Save the table (CSV)"), ("json", "Save all numbers (JSON)"))
    AFTER_RELOAD = "to measure: what was finished is not measured again"
    result_type: type  # made of a pair and a plan; empty without points

    # (values) → a run with the largest settings, which is checked against the server's limits, and the plan; BadInput.
    parse: Any
    extent: Any  # (pair, plan) → how much work it is
    # (engine, config, plan, again, measured) → the points on an engine. ``again``: without those measured before;
    # ``measured``: the newest result.
    open_points: Any

    def finding(self, result, is_new: bool) -> str:
        """Returns the notice for a complete result; ``is_new``: some of it was measured now."""
        return notice("quiet", self.view.verdict(result))

    def known_result(self, state: PageState, config: RunConfig, plan) -> Any:
        """Returns what the page has of this plan, or an empty result. Raises Unavailable where a method cannot run."""
        for method in plan.methods:
            if reasons := self.service.offer.problems(config.pair, method):
                raise Unavailable(" ".join(reasons))
        return self.result_type(config.pair, plan)

    def is_known(self, result, plan) -> bool:
        """Returns whether the page has every point, so that no engine is needed."""
        return False

    def size(self, *values) -> str:
        """Returns the notice that says how much work the form asks for, or its mistake."""
        if not self.service.runs.offers_experiments:
            return notice("quiet")  # the buttons say why
        try:
            config, plan = self.parse(values)
        except EngineError as error:
            return notice("quiet", str(error))
        return notice("quiet", self.extent(config.pair, plan))

    def updates(self, request: VisitorRequest, state: PageState, values: Sequence, how: Again | None) -> Iterator:
        """Measures the points that are missing. ``how``: which points it forgets first."""
        config, plan = self.parse(values)
        result = self.known_result(state, config, plan)
        yield self.Outputs(notice("progress", "Starting"))
        if not how and self.is_known(result, plan):
            yield self.draw(state.result, values)._replace(notice=self.finding(state.result, is_new=False))
            return
        latest, parts, eta, due = None, 0, Eta(), 0.0
        units = work_units(
            lambda engine, again: self.open_points(engine, config, plan, again, result), lambda: latest, how
        )
        for report in self.reports(request, units, config):
            if isinstance(report, Progress):
                yield self.progress(report)
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
                doing = f": {latest.doing}" if latest.doing else ""
                words = f"{self._place(latest)}{doing}{eta.words()}"
                yield update._replace(notice=notice("progress", words, latest.done / latest.of))
                due = time.monotonic() + updates.SECONDS_BETWEEN_UPDATES
        if latest and latest.is_complete:
            words = self.finding(state.result, is_new=True)
        elif latest and result:  # how many are kept; otherwise the next run would seem to count backwards
            place = self._place(latest).lower()
            words = notice("quiet", f"Stopped at {place}, with {parts} kept. {self.REMAINS}")
        else:
            words = self.early_stop(state)
        yield (self.draw(result, values) if latest and result else self.Outputs())._replace(notice=words)

    def _place(self, step: Step) -> str:
        return f"{self.NOUN} {min(int(step.done) + 1, step.of)} of {step.of}"

    def end(self, state: PageState) -> list:
        """Returns the buttons, the files, and the button that measures again, once there is something measured."""
        ends = super().end(state)
        return [*ends, SKIP if ends[0] is SKIP else gr.update(interactive=bool(state.result))]


class InParts(Measurement):
    """A measurement of which one part is shown at a time: a temperature, or prompts of one length."""

    WHAT: str  # can be chosen in the form
    LEAD: str  # HTML above it
    SHOWN: str  # the label of the list of parts
    RECIPES = ""  # the title of the configurations, where there are some

    def lay_out(self, page: "Layout") -> None:
        """Lays out the button first, then the form, folded, and the results."""
        with gr.Row(elem_classes="sl-actions"):
            page.run_and_stop()
            over = page.over_button()
        with page.fold(self.WHAT):
            page.html(self.LEAD)
            page.form()
        page.size_notice()
        listed = self.list_parts(self.opening_result.result if self.opening_result else None)
        shown = gr.Radio(**listed, label=self.SHOWN, elem_id=page.id("shown"))
        page.charts(self.view.CHARTS)
        page.show("table")
        page.files()
        if self.RECIPES:
            page.recipes(self.RECIPES)
        page.wire_measurement(over, shown)
        page.follow_size()
        pair, methods = page.widgets["pair"], page.widgets["methods"]
        pair.change(self.select_pair, [pair, methods], methods, **QUIET)
        shown.input(self.select_part, [page.state, shown], page.streamed, **QUIET)

    def draw(self, result, values: Sequence = ()) -> Any:
        return self.draw_part(result, result.part_shown)

    def draw_part(self, result, part) -> Any:
        return self.Outputs(**self.view.draw(result, part))

    def finding(self, result, is_new: bool) -> str:
        return notice("quiet", self.view.advice(result, result.part_shown))

    def lists(self, form: Mapping[str, Any]) -> dict[str, Any]:
        return {"methods": self.select_pair(form["pair"], form["methods"])}

    def list_parts(self, result) -> dict[str, Any]:
        """Returns the choice of the parts of a result, which is hidden where there is one."""
        parts = self.view.parts(result) if result else []
        return {"choices": parts, "value": result.part_shown if parts else None, "visible": len(parts) > 1}

    def end(self, state: PageState) -> list:
        """Returns the end of every measurement, and the parts to choose from."""
        ends = super().end(state)
        is_drawn = state.result and ends[0] is not SKIP
        return [*ends, gr.update(**self.list_parts(state.result)) if is_drawn else SKIP]

    def select_part(self, state: PageState, part: Any) -> Any:
        """Returns the outputs of another part."""
        result = self.on_page(state)
        if not result or part not in (value for _, value in self.view.parts(result)):
            return self.Outputs()
        return self.draw_part(result, part)._replace(notice=notice("quiet", self.view.advice(result, part)))


def largest_method(methods: Sequence[str]) -> str:
    """Returns a method whose run loads all of these, because auto brings every draft of the pair."""
    return AUTO if len(methods) > 1 else next(iter(methods), "none")
