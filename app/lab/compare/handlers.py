"""Runs two to four settings side by side on the page: the form as runs, their rounds as they come, and the files."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import gradio as gr

from app.form import START as START_PROMPT
from app.form import settings
from app.jobs.request import VisitorRequest
from app.jobs.result_cache import RecordedRun
from app.jobs.updates import Update
from app.jobs.visitor import Session
from app.lab.compare import files, recordings, view
from app.lab.compare.view import Column
from app.lab.experiment import Experiment, PageState, define_outputs
from app.lab.recorded import Recorded
from app.playground.trace_files import uploads
from app.ui.method_choices import method_choices
from app.ui.widgets import SKIP
from app.views.notice import notice
from app.views.player_feed import Feed
from app.views.status_words import ago
from engine.config import AUTO
from engine.errors import BadInput, EngineError, quantity
from engine.trace.events import Round, RunFinished

FEWEST, MOST = 2, 4
OWN = ("method", "auto", "gamma", "temperature", "acceptance")  # the controls of each column
SHARED = ("prompt", "pair", "tokens", "seed")
SPARE = {"method": AUTO, "auto": True, "gamma": 4, "temperature": 0, "acceptance": "token"}
# The first columns: the baseline, then each method that a pair may have.
START = (SPARE | {"method": "none", "auto": False}, SPARE | {"method": "ngram", "auto": False},
         SPARE | {"method": "lm", "auto": False, "gamma": 2}, SPARE | {"method": "eagle", "gamma": 2})  # fmt: skip


@dataclass(frozen=True)
class ComparedRuns:
    """``run``: an id by which the page tells one comparison from the next; ``recorded_at``: when its runs were made,
    in seconds since the epoch; None for runs made now. Without rounds it is empty."""

    run: str
    columns: tuple[Column, ...]
    recorded_at: float | None = None

    @property
    def is_recorded(self) -> bool:
        return self.recorded_at is not None

    @property
    def conclusion(self) -> str:
        """The notice that says who was fastest."""
        when = "" if self.recorded_at is None else ago(time.time() - self.recorded_at)
        return notice(*view.conclusion(self.columns, when))

    def __bool__(self) -> bool:
        return any(column.trace and column.trace.rounds for column in self.columns)


def read_saved(saved: bytes) -> Recorded:
    columns = files.from_zip(saved)
    started = columns[0].trace.started
    comparison = ComparedRuns("recorded", columns, datetime.fromisoformat(started.at).timestamp())
    return Recorded(comparison, started.at, started.device, started.dtype, started.pair)


def beginning(methods: Sequence[str]) -> list[dict]:
    """Returns the controls of each column at the start: those the pair has methods for, then spare ones."""
    offered = [column for column in START if column["method"] in methods]
    return [*offered, *[SPARE] * MOST][:MOST]


def count(methods: Sequence[str]) -> int:
    """Counts the columns that are shown at the start."""
    return max(FEWEST, sum(column["method"] in methods for column in START))


class CompareHandlers(Experiment):
    """A state's result: ComparedRuns."""

    Outputs = define_outputs("grid", "table", "charts")
    RECORDED = "compare.zip"
    read_saved = staticmethod(read_saved)
    RUN = "Run all"
    REMAINS = "The rounds so far stay on screen."
    FIRST = "the first round"
    AFTER_RELOAD = "to see these runs again"

    # ── controls ──

    def select_pair(self, pair: str, *values) -> list:
        """Returns the pair's notice, then every column's methods. A column whose method the pair lacks takes auto."""
        options = method_choices(self.service, pair)
        methods = dict(options).values()
        updates = (gr.update(choices=options, value=value if value in methods else AUTO) for value in values)
        return [self.pair_notice(pair), *updates]

    def list_methods(self, pair: str) -> list:
        """Returns every column's methods once more, because their costs are known only once an engine is loaded."""
        return [gr.update(choices=method_choices(self.service, pair))] * MOST

    @staticmethod
    def own_prompt(session: Session, prompt: str) -> Any:
        """Returns the prompt of the playground's run, in place of the one at the start."""
        if session.trace is None or prompt != START_PROMPT:
            return SKIP
        return session.trace.started.prompt_text or prompt

    def refill(self, values: Sequence) -> list:
        """Returns an update for each control, and then the columns as `add` does."""
        form = dict(zip((*SHARED, "shown"), values, strict=False))
        _, *methods = self.select_pair(form["pair"], *values[len(form) :: len(OWN)])
        updates = super().refill(values)
        updates[len(form) :: len(OWN)] = methods
        return [*updates, *_show_columns(form["shown"])[1:]]

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

    # ── the result that the page opens with ──

    def verdict(self, result: ComparedRuns) -> str:
        return view.conclusion(result.columns)[1]

    def doubts(self, result: ComparedRuns) -> str:
        return view.doubts_about(result.columns)

    # ── runs ──

    def run(self, request: gr.Request, state: PageState, *values) -> Iterator:
        """``values`` are those of SHARED, the number of columns, then those of OWN for every possible column."""
        yield from self.stream(request, state, lambda mine: self._run(mine, state, values, again=False))

    def run_again(self, request: gr.Request, state: PageState, *values) -> Iterator:
        """Runs everything again, even if exactly these runs are recorded."""
        yield from self.stream(request, state, lambda mine: self._run(mine, state, values, again=True))

    def _run(self, request: VisitorRequest, state: PageState, values, again: bool) -> Iterator:
        own, before = parse_form(values), state.result.columns if state.result else ()
        beside = [column for column in before if column.source]
        columns = [*own, *beside]
        runs = tuple((f"run {number}", column.config) for number, column in enumerate(own, 1))
        names, run = [name for name, _ in runs], uuid.uuid4().hex
        feed, is_begun, timed_out = Feed(run), False, False
        with closing(self.service.runs.run(request, runs, again)) as updates:
            for update in updates:
                if isinstance(update, RecordedRun):
                    own = [replace(c, trace=update.traces[name]) for c, name in zip(own, names, strict=True)]
                    columns = [*own, *beside]
                    state.result = ComparedRuns(run, tuple(columns), update.at)
                    yield self.show(state.result)._replace(notice=state.result.conclusion)
                    return
                at, timed_out = names.index(update.name), timed_out or update.timed_out
                trace = update.fold.traces()[update.name]
                if not is_begun and not (trace and trace.rounds):  # until then the page keeps the runs before
                    yield self._progress(update)
                    continue
                if not is_begun:
                    yield self._start(feed, columns)
                    is_begun = True
                columns[at] = replace(columns[at], trace=trace)
                state.result = ComparedRuns(run, tuple(columns))
                yield self._following(feed, columns, at, update)
        words = notice(*view.conclusion(columns)) if is_begun else self.early_stop(state)
        yield self.show(state.result)._replace(notice=self._out_of_time() if timed_out else words)

    def _start(self, feed: Feed, columns: list[Column]) -> Any:
        states = ["recorded" if column.source else "waiting" for column in columns]
        heads = "".join(view.head(columns, at, each) for at, each in enumerate(states))
        heads += "".join(view.rounds(at, each.trace.rounds) for at, each in enumerate(columns) if each.source)
        return self.Outputs(
            notice("progress", "Starting"), feed.add(view.columns(columns) + heads), view.table([]), view.chart([])
        )

    def _progress(self, update: Update) -> Any:
        step = update.progress
        return self.Outputs(notice("progress", step.message, step.fraction)) if step else self.Outputs()

    def _following(self, feed: Feed, columns: list[Column], at: int, update: Update) -> Any:
        if update.progress:
            return self._progress(update)
        is_over = any(isinstance(event, RunFinished) for event in update.events)
        lines = view.rounds(at, [event for event in update.events if isinstance(event, Round)])
        # The columns are repeated, because the browser may see only the last of several values.
        text = feed.add(view.columns(columns) + lines + view.head(columns, at, "ended" if is_over else "running"))
        tokens, limit = len(columns[at].trace.emitted) if columns[at].trace else 0, columns[at].config.max_new_tokens
        count = sum(not column.source for column in columns)
        words = f"Run {at + 1} of {count}, {columns[at].name}: {tokens} of up to {quantity(limit, 'token')}"
        progress = notice("progress", words, (at + min(1.0, tokens / limit)) / count)
        drawn = {"table": view.table(columns), "charts": view.chart(columns)} if is_over else {}
        return self.Outputs(progress, text, **drawn)

    def add_recordings(self, state: PageState, paths: Sequence[str] | None) -> Any:
        """Shows recordings of servers beside the runs on the page, in place of earlier ones. Deletes the uploads."""
        try:
            with uploads(paths) as names:
                if not state.is_over:
                    raise BadInput("Let the runs end first, then open the recordings again.")
                beside = recordings.read_columns(names)
        except EngineError as error:
            return self.Outputs(notice("error", str(error)))
        before = state.result
        own = [column for column in before.columns if not column.source] if before else []
        state.result = ComparedRuns(uuid.uuid4().hex, (*own, *beside), before.recorded_at if own else None)
        return self._without_mark(self.show(state.result)._replace(notice=state.result.conclusion))

    def _out_of_time(self) -> str:
        seconds = self.service.limits.seconds
        return notice("error", f"All runs together may take up to {seconds} s here. Ask for fewer tokens or runs.")

    def show(self, result: ComparedRuns | None) -> Any:
        if result is None:
            return self.Outputs()
        columns = result.columns
        grid = view.full_grid(result.run, columns, result.is_recorded)
        return self.Outputs(grid=grid, table=view.table(columns), charts=view.chart(columns))

    def end(self, state: PageState) -> list:
        """Ends a run; “Run again” is offered for a recording."""
        ends = super().end(state)
        is_recorded = bool(state.result) and state.result.is_recorded
        return [*ends, SKIP if ends[0] is SKIP else gr.update(visible=is_recorded)]

    def files(self, result: ComparedRuns) -> Mapping[str, str | bytes]:
        return {
            "speclens-compare.zip": files.traces(result.columns),
            "speclens-compare.csv": files.to_csv(result.columns),
        }


def parse_form(values: Sequence) -> list[Column]:
    """Reads the form. Raises BadInput that names the control, and the run if the control is one of its own."""
    shared, (shown, *rest) = dict(zip(SHARED, values, strict=False)), values[len(SHARED) :]
    if type(shown) is not int or not FEWEST <= shown <= MOST:
        raise BadInput(f"Choose {FEWEST} to {MOST} runs.")
    columns = []
    for column in range(shown):
        own = dict(zip(OWN, rest[column * len(OWN) : (column + 1) * len(OWN)], strict=True))
        try:
            columns.append(Column(settings(shared | own)))
        except BadInput as error:
            is_own = any(
                name in str(error).lower() for name in ("gamma", "temperature", "method", "draft length", "acceptance")
            )
            raise BadInput(f"Run {column + 1}: {error}" if is_own else str(error)) from error
    return columns


def _show_columns(number: int) -> list:
    """Returns the number of columns, each one's visibility, each Remove button's, and whether one can be added."""
    visible = [gr.update(visible=column < number) for column in range(MOST)]
    removable = [gr.update(visible=number > FEWEST)] * MOST
    return [number, *visible, *removable, gr.update(interactive=number < MOST)]
