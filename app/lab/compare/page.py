"""Runs two to four settings of one prompt side by side: the form as runs, their rounds as they come, and the files."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr

from app.form import START as START_PROMPT
from app.form import choices, controls_by_name, settings
from app.jobs.request import VisitorRequest
from app.jobs.result_cache import RecordedRun
from app.jobs.updates import Update
from app.jobs.visitor import Session
from app.lab.compare import view
from app.lab.compare.columns import Column, ComparedRuns, read_columns
from app.lab.experiment import Experiment, PageState, define_outputs
from app.lab.form import Field, pair_field, place, widget
from app.lab.layout import Layout
from app.ui.method_choices import method_choices
from app.ui.widgets import QUIET, SKIP, open_files
from app.views.notice import notice
from app.views.player_feed import Feed
from engine.config import ACCEPTANCE, AUTO
from engine.errors import BadInput, quantity
from engine.trace.events import Round, RunFinished

LEAD = """<p class="sl-lab-lead">Compare the columns: every run answers the same prompt, one after the other on this
machine. A round is one pass of the big model, the target. A column with fewer rows needed fewer passes for its words.
At temperature 0 all columns must show the same text, because drafting never changes it. Only where the target's two
best tokens are as good as tied may rounding decide differently. The text is marked from there on.</p>"""
TOKENS = 96  # each run's limit when the page opens: four such runs take a quarter of a minute
FEWEST, MOST = 2, 4
OWN = ("method", "auto", "gamma", "temperature", "acceptance")  # the controls of each column
SPARE = {"method": AUTO, "auto": True, "gamma": 4, "temperature": 0, "acceptance": "token"}
# The first columns: the baseline, then each method that a pair may have.
START = (SPARE | {"method": "none", "auto": False}, SPARE | {"method": "ngram", "auto": False},
         SPARE | {"method": "lm", "auto": False, "gamma": 2}, SPARE | {"method": "eagle", "gamma": 2})  # fmt: skip


def beginning(methods: Sequence[str]) -> list[dict]:
    """Returns the controls of each column at the start: those the pair has methods for, then spare ones."""
    offered = [column for column in START if column["method"] in methods]
    return [*offered, *[SPARE] * MOST][:MOST]


def count(methods: Sequence[str]) -> int:
    """Counts the columns that are shown at the start."""
    return max(FEWEST, sum(column["method"] in methods for column in START))


class Compare(Experiment):
    """A state's result: ComparedRuns."""

    NAME = "compare"
    Outputs = define_outputs("grid", "table", "charts")
    RECORDED = "compare.zip"
    view = view
    FILES = (("traces", "Save the traces (JSON, zipped)"), ("csv", "Save the table (CSV)"))
    RUN = "Run all"
    REMAINS = "The rounds so far stay on screen."
    FIRST = "the first round"
    WORK = "runs"
    AFTER_RELOAD = "to see these runs again"

    # ── the form: the controls that all runs share, the number of columns, then the controls of each column ──

    def form(self) -> list[list[Field]]:
        controls, methods = controls_by_name(self.service.limits), self.service.offer.methods(self.service.offer.pair)
        tokens = replace(controls["tokens"], default=min(TOKENS, controls["tokens"].default))
        prompt = replace(controls["prompt"], lines=3)
        columns = [self._column(number, start) for number, start in enumerate(beginning(methods), 1)]
        return [
            [place(prompt, max_lines=8)],
            [pair_field(self.service, scale=3), place(tokens, min_width=110), place(controls["seed"], min_width=110)],
            [Field("shown", "Runs", "", count(methods), "number", FEWEST, MOST, 1, layout={"visible": False})],
            *columns,
        ]  # fmt: skip

    def _column(self, number: int, start: Mapping[str, Any]) -> list[Field]:
        controls, drafts = controls_by_name(self.service.limits), start["method"] != "none"
        rules = {value: rule.title for value, rule in ACCEPTANCE.items()}
        more = {
            "method": {"choices": method_choices(self.service, self.service.offer.pair)},
            "auto": {"label": "γ auto", "interactive": drafts},
            "gamma": {"interactive": drafts and not start["auto"]},
            "acceptance": {"choices": choices(rules), "info": None, "interactive": drafts},
        }
        fields = [place(replace(controls[name], default=start[name]), **more.get(name, {})) for name in OWN]
        return [replace(field, name=f"{field.name}-{number}") for field in fields]

    def read(self, values: Sequence) -> Any:
        """Returns the columns of the form. Raises BadInput that names the control, and the run if the control is one of
        its own."""
        form, columns = self.by_name(values), []
        shared, shown = {name: form[name] for name in ("prompt", "pair", "tokens", "seed")}, form["shown"]
        if type(shown) is not int or not FEWEST <= shown <= MOST:
            raise BadInput(f"Choose {FEWEST} to {MOST} runs.")
        for number in range(1, shown + 1):
            try:
                columns.append(Column(settings(shared | {name: form[f"{name}-{number}"] for name in OWN})))
            except BadInput as error:
                own = ("gamma", "temperature", "method", "draft length", "acceptance")
                is_own = any(name in str(error).lower() for name in own)
                raise BadInput(f"Run {number}: {error}" if is_own else str(error)) from error
        return columns

    def select_pair(self, pair: str, *values) -> list:
        """Returns the pair's notice, then every column's methods. A column whose method the pair lacks takes auto."""
        options = method_choices(self.service, pair)
        methods = dict(options).values()
        updates = (gr.update(choices=options, value=value if value in methods else AUTO) for value in values)
        return [self.pair_notice(pair), *updates]

    def list_methods(self, pair: str) -> list:
        """Returns every column's methods once more, because their costs are known only once an engine is loaded."""
        return [gr.update(choices=method_choices(self.service, pair))] * MOST

    def lists(self, form: Mapping[str, Any]) -> dict[str, Any]:
        names = [f"method-{number}" for number in range(1, MOST + 1)]
        _, *methods = self.select_pair(form["pair"], *(form[name] for name in names))
        return dict(zip(names, methods, strict=True))

    def refill(self, values: Sequence) -> list:
        """Returns an update for each control, and then the columns as `add` does."""
        return [*super().refill(values), *_show_columns(self.by_name(values)["shown"])[1:]]

    @staticmethod
    def own_prompt(session: Session, prompt: str) -> Any:
        """Returns the prompt of the playground's run, in place of the one at the start."""
        if session.trace is None or prompt != START_PROMPT:
            return SKIP
        return session.trace.started.prompt_text or prompt

    @staticmethod
    def add(shown: int) -> list:
        return _show_columns(min(MOST, shown + 1))

    @staticmethod
    def remove(column: int):
        """Returns a handler that takes one column away; the columns after it move up."""

        def handler(shown: int, *values) -> list:
            size, rest = len(OWN), list(values)
            if shown <= FEWEST or column >= shown:
                return [*_show_columns(shown), *[SKIP] * len(values)]
            del rest[column * size : (column + 1) * size]
            return [*_show_columns(shown - 1), *rest, *values[column * size : (column + 1) * size]]

        return handler

    # ── the tab ──

    def lay_out(self, page: Layout) -> None:
        prompt_row, shared, (shown,), *columns = self.rows
        places, removes = [], []
        with gr.Row(elem_classes="sl-actions"):
            page.run_and_stop()
            again = gr.Button("Run again", elem_id=page.id("again"), visible=False, scale=2, min_width=110)
            recordings = open_files("Add recordings of your server", page.id("recordings"))
        with page.fold("the prompt and the runs"):
            page.html(LEAD)
            page.widgets["prompt"] = widget(prompt_row[0], self.NAME)
            page.form([shared])
            page.widgets["shown"] = widget(shown, self.NAME)
            with gr.Row(elem_classes="sl-compare-columns"):
                for number, fields in enumerate(columns, 1):
                    visible = number <= shown.default
                    with gr.Column(visible=visible, min_width=230, elem_classes="sl-compare-column") as column:
                        page.html(f"<h3>Run {number}</h3>")
                        page.widgets |= {field.name: widget(field, self.NAME) for field in fields}
                        remove = gr.Button(
                            "Remove this run", size="sm", elem_id=page.id(f"remove-{number}"), min_width=90
                        )
                    places.append(column)
                    removes.append(remove)
            with gr.Row(elem_classes="sl-small-actions"):
                can_add, name = shown.default < MOST, page.id("add")
                more = gr.Button("Add a run", size="sm", elem_id=name, interactive=can_add, min_width=120)
        page.notices()
        page.show("table")
        page.show("grid", "compare")
        page.charts(view.CHARTS)
        page.files()
        self._wire(page, again, recordings, more, places, removes)

    def _wire(self, page: Layout, again: gr.Button, recordings, more: gr.Button, places: list, removes: list) -> None:
        layout, widgets = [*places, *removes, more], page.widgets
        page.wire(again, layout=layout)
        page.open_recordings(recordings)
        page.connect(widgets["prompt"].submit)
        page.connect(again.click, "again")
        page.connect(page.outputs["table"].again, "again")
        shown, prompt, pair = widgets["shown"], widgets["prompt"], widgets["pair"]
        page.keep_form(more.click(self.add, shown, [shown, *layout], **QUIET).then)
        own = [widgets[f"{name}-{number}"] for number in range(1, MOST + 1) for name in OWN]
        for number, remove in enumerate(removes):
            remove.click(self.remove(number), [shown, *own], [shown, *layout, *own], **QUIET)
            method, auto, gamma, _, acceptance = own[number * len(OWN) : (number + 1) * len(OWN)]
            gr.on([method.change, auto.change], _follow, [method, auto], [auto, gamma, acceptance], **QUIET)
        methods, tab = own[:: len(OWN)], page.tabs[0]
        tab.select(self.own_prompt, [page.session, prompt], prompt, **QUIET)
        tab.select(self.list_methods, pair, methods, **QUIET)
        pair.input(self.select_pair, [pair, *methods], [page.outputs["notice"], *methods], **QUIET)

    # ── runs ──

    def updates(self, request: VisitorRequest, state: PageState, values: Sequence, how: Any) -> Iterator:
        """Runs all columns. ``how``: "again" runs them even if exactly these runs are recorded."""
        own, before = self.read(values), state.result.columns if state.result else ()
        beside = [column for column in before if column.source]
        columns, names = [*own, *beside], [f"run {number}" for number in range(1, len(own) + 1)]
        runs, run = tuple(zip(names, (column.config for column in own), strict=True)), uuid.uuid4().hex
        feed, is_begun, timed_out = Feed(run), False, False
        with closing(self.service.runs.run(request, runs, how == "again")) as updates:
            for update in updates:
                if isinstance(update, RecordedRun):
                    own = [replace(c, trace=update.traces[name]) for c, name in zip(own, names, strict=True)]
                    state.result = ComparedRuns(run, (*own, *beside), update.at)
                    yield self.draw(state.result)._replace(notice=view.notice_of(state.result))
                    return
                at, timed_out = names.index(update.name), timed_out or update.timed_out
                trace = update.fold.traces()[update.name]
                if not is_begun and not (trace and trace.rounds):  # until then the page keeps the runs before
                    yield self.progress(update.progress) if update.progress else self.Outputs()
                    continue
                if not is_begun:
                    yield self._start(feed, columns)
                    is_begun = True
                columns[at] = replace(columns[at], trace=trace)
                state.result = ComparedRuns(run, tuple(columns))
                yield self._following(feed, columns, at, update)
        words = notice(*view.conclusion(columns)) if is_begun else self.early_stop(state)
        if timed_out:
            limit = f"All runs together may take up to {self.service.limits.seconds} s here."
            words = notice("error", f"{limit} Ask for fewer tokens or runs.")
        yield (self.draw(state.result) if state.result else self.Outputs())._replace(notice=words)

    def _start(self, feed: Feed, columns: list[Column]) -> Any:
        states = ["recorded" if column.source else "waiting" for column in columns]
        heads = "".join(view.head(columns, at, each) for at, each in enumerate(states))
        heads += "".join(view.rounds(at, each.trace.rounds) for at, each in enumerate(columns) if each.source)
        words, grid = notice("progress", "Starting"), feed.add(view.columns(columns) + heads)
        return self.Outputs(words, grid, view.table([]), view.chart([]))

    def _following(self, feed: Feed, columns: list[Column], at: int, update: Update) -> Any:
        if update.progress:
            return self.progress(update.progress)
        is_over = any(isinstance(event, RunFinished) for event in update.events)
        lines = view.rounds(at, [event for event in update.events if isinstance(event, Round)])
        # The columns are repeated, because the browser may see only the last of several values.
        text = feed.add(view.columns(columns) + lines + view.head(columns, at, "ended" if is_over else "running"))
        tokens, limit = len(columns[at].trace.emitted) if columns[at].trace else 0, columns[at].config.max_new_tokens
        own = sum(not column.source for column in columns)
        words = f"Run {at + 1} of {own}, {columns[at].name}: {tokens} of up to {quantity(limit, 'token')}"
        drawn = {"table": view.table(columns), "charts": view.chart(columns)} if is_over else {}
        return self.Outputs(notice("progress", words, (at + min(1.0, tokens / limit)) / own), text, **drawn)

    def show_recordings(self, state: PageState, paths: Sequence[str]) -> Any:
        """Shows recordings of servers beside the runs on the page, in place of earlier ones."""
        beside = read_columns(paths)
        before = state.result
        own = [column for column in before.columns if not column.source] if before else []
        state.result = ComparedRuns(uuid.uuid4().hex, (*own, *beside), before.recorded_at if own else None)
        return self.draw(state.result)._replace(notice=view.notice_of(state.result))

    # ── a result ──

    def end(self, state: PageState) -> list:
        """Ends a run; “Run again” is offered for a recording."""
        ends = super().end(state)
        is_recorded = bool(state.result) and state.result.recorded_at is not None
        return [*ends, SKIP if ends[0] is SKIP else gr.update(visible=is_recorded)]


def _follow(method: str, auto: bool) -> list:
    """Disables γ where auto chooses it, and all that is about drafts without them."""
    drafts = method != "none"
    return [gr.update(interactive=on) for on in (drafts, drafts and not auto, drafts)]


def _show_columns(number: int) -> list:
    """Returns the number of columns, each one's visibility, each Remove button's, and whether one can be added."""
    visible = [gr.update(visible=column < number) for column in range(MOST)]
    removable = [gr.update(visible=number > FEWEST)] * MOST
    return [number, *visible, *removable, gr.update(interactive=number < MOST)]
