"""Lays out the tab of an experiment part after part, and wires it: a press, Stop, and the form that the browser keeps
for a reload."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import gradio as gr
from gradio.context import Context

from app.jobs.runs import NO_EXPERIMENTS
from app.jobs.visitor import Session
from app.lab.experiment import Measurement, PageState
from app.lab.form import widget
from app.ui.charts import charts
from app.ui.html_component import component
from app.ui.notice import notice as notice_area
from app.ui.widgets import QUIET, SKIP, download, run_and_stop, streams

# Stop is disabled at the end, which would drop the keyboard's focus.
TO_TAB = "() => { document.querySelector('#lab-tabs [role=tab][aria-selected=true]')?.focus(); return []; }"
# kept_form.js listens.
KEEP = "(...values) => { document.dispatchEvent(new CustomEvent('speclens-form', { detail: { id: ID, values } })); }"


class Layout:
    """The tab of one experiment. ``session``: what the visitor last ran in the playground; ``widgets``: the controls by
    name; ``outputs``: the components of its Outputs by name. ``inputs``: what its handlers get after the state;
    ``ends``: what ``experiment.end`` sets."""

    def __init__(self, experiment: Any, session: gr.State | None = None):
        self.experiment, self.session = experiment, session or gr.State(Session())
        self.state, self.opening = gr.State(PageState()), experiment.opening()
        self.tabs = _enclosing_tabs()  # the nearest first
        self.widgets: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.ends: list[Any] = []
        self.saved: list[Any] = []

    def id(self, name: str) -> str:
        return f"{self.experiment.NAME}-{name}"

    # ── the parts, in any order ──

    def html(self, text: str) -> None:
        gr.HTML(text, apply_default_css=False)

    def run_and_stop(self) -> None:
        """Lays out Run and Stop. Where this server refuses a measurement, Run is disabled and a sentence says why; the
        recorded result can still be looked at."""
        is_measured = isinstance(self.experiment, Measurement)
        can_run = not is_measured or self.experiment.service.runs.offers_experiments
        self.run, self.stop = run_and_stop(self.experiment.RUN, self.experiment.NAME, can_run)
        if not can_run:
            words = re.sub("`(.+?)`", r"<code>\1</code>", NO_EXPERIMENTS)
            self.html(f'<p class="sl-no-experiments" role="note">{words}</p>')

    def over_button(self, label: str = "Start over", name: str = "over") -> gr.Button:
        return gr.Button(label, elem_id=self.id(name), interactive=False, scale=1, min_width=110)

    def fold(self, what: str) -> gr.Accordion:
        """Lays out the form, folded above its results; ``what``: what can be chosen there."""
        name = self.id("form")
        return gr.Accordion(f"Choose {what}", open=False, elem_id=name, elem_classes="sl-lab-form")

    def form(self, rows: Sequence[Sequence] | None = None) -> None:
        for row in self.experiment.rows if rows is None else rows:
            with gr.Row(equal_height=True) if len(row) > 1 else nullcontext():
                self.widgets |= {field.name: widget(field, self.experiment.NAME) for field in row}

    def notices(self, words: str = "") -> None:
        """Lays out the notice, and the mark of a recorded result. ``words``: the notice that the page opens with."""
        self.outputs["notice"] = notice_area(self.id("notice"), words)
        self.outputs["mark"] = notice_area(self.id("recorded"), self.opening.mark)

    def size_notice(self) -> None:
        """Lays out the notices, the first of which says how much work the form asks for."""
        values = [each.value for each in self.widgets.values()]
        self.notices(self.experiment.size(*values))

    def charts(self, titles: dict[str, str]) -> None:
        self.outputs["charts"] = charts(self.opening.charts, self.id("charts"), titles)

    def show(self, part: str, kind: str = "table", name: str | None = None, **fields: str) -> Any:
        """Lays out the component of an output, by default a table. ``name``: its element's id, if not the part's."""
        elem_id = self.id(name or part.replace("_", "-"))
        self.outputs[part] = component(kind, getattr(self.opening, part), elem_id, **fields)
        return self.outputs[part]

    def recipes(self, title: str) -> None:
        self.show("recipes", "engine_recipes", "production", title=title)

    def files(self) -> None:
        with gr.Row(elem_classes="sl-files"):
            self.saved = [download(label, self.id(name)) for name, label in self.experiment.FILES]

    # ── wiring ──

    def wire(self, *more: Any, layout: Sequence = (), inputs: Sequence | None = None) -> None:
        """Wires Run, Stop and the form. ``more``: what ``experiment.end`` sets beside the buttons and the files;
        ``layout``: what ``experiment.refill`` sets beside the form; ``inputs``: if they are not the widgets."""
        experiment, form = self.experiment, [*self.widgets.values()]
        self.inputs, self.ends = [*(form if inputs is None else inputs)], [self.run, self.stop, *self.saved, *more]
        self.streamed = list(experiment.Outputs(**self.outputs))
        self.stop.click(experiment.stop, None, js=TO_TAB, **QUIET)
        self.outputs["notice"].reloaded(self.restore, None, [*form, *layout, self.outputs["mark"]], **QUIET)
        self.keep_form(partial(gr.on, [self.run.click, *(each.change for each in form)]))
        self.connect(self.run.click)

    def wire_measurement(self, over: gr.Button, *more: Any, **options: Any) -> None:
        """Wires Run, the button that measures all again, and the one beside noise."""
        self.wire(over, *more, **options)
        if "table" in self.outputs:
            self.connect(self.outputs["table"].again, "noise")
        self.connect(over.click, "all")

    def follow_size(self, widgets: Sequence | None = None) -> None:
        """Says how much work the form asks for whenever it changes."""
        changes = [each.change for each in (self.inputs if widgets is None else widgets)]
        gr.on(changes, self.experiment.size, self.inputs, self.outputs["notice"], **QUIET)

    def connect(self, listen: Callable, how: Any = None) -> None:
        """Wires a press. ``listen``: such as ``button.click``; ``how``: as `Experiment.press`."""
        experiment, limit = self.experiment, streams(self.experiment.service.runs.most_requests)
        limit |= {"concurrency_id": type(experiment).__name__}
        pressed = listen(experiment.begin, self.state, [self.run, self.stop, *self.saved], **QUIET)
        streamed = pressed.then(experiment.press(how), [self.state, *self.inputs], self.streamed, **limit)
        streamed.success(experiment.end, self.state, self.ends, **QUIET)
        streamed.failure(experiment.end_lost, self.state, self.ends, **QUIET)

    def open_recordings(self, button: gr.UploadButton) -> None:
        """Wires the button that opens recordings of a server."""
        opened = button.upload(self.experiment.open_recordings, [self.state, button], self.streamed, **QUIET)
        opened.success(self.experiment.end, self.state, self.ends, **QUIET)

    def keep_form(self, listen: Callable) -> None:
        """Keeps the form in the browser whenever ``listen`` says so, for a reload of the page."""
        keep = KEEP.replace("ID", f"'{self.id('notice')}'")
        listen(None, [*self.widgets.values()], None, js=keep, api_visibility="private")

    def restore(self, event: gr.EventData) -> Any:
        """Returns the form as the browser kept it, unless the page has another form by now."""
        values = event._data["values"]
        return self.experiment.restore(values) if len(values) == len(self.widgets) else SKIP


def _enclosing_tabs() -> list[gr.Tab]:
    """Returns the tabs around the part of the page that is being laid out, the nearest first."""
    tabs, block = [], Context.block
    while block is not None:
        if isinstance(block, gr.Tab):
            tabs.append(block)
        block = block.parent
    return tabs
