"""Compare on the page: which runs, their rounds as they come, Stop, and the files. Thin."""

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import gradio as gr

from app.controls import METHODS, choices, settings
from app.files import Exports
from app.handlers import Lane
from app.service import Recording, Service, Update
from app.session import experimenter
from app.views import lab_compare as view
from app.views.lab_compare import Column
from app.views.notice import notice
from app.views.ribbon import Feed
from app.views.state import ago
from engine.config import AUTO
from engine.errors import BadInput, EngineError
from engine.events import Round, RunFinished

SKIP = gr.skip()
RUN = "Run all"
FEWEST, MOST = 2, 4
OWN = ("method", "auto", "gamma", "temperature")  # what each column has for itself
SHARED = ("prompt", "pair", "tokens", "seed")
# A sensible start: the baseline, and what a pair has to draft with.
START = ({"method": "none", "auto": False, "gamma": 4, "temperature": 0},
         {"method": "ngram", "auto": False, "gamma": 4, "temperature": 0},
         {"method": "lm", "auto": False, "gamma": 2, "temperature": 0},
         {"method": "eagle", "auto": True, "gamma": 2, "temperature": 0})  # fmt: skip


class Screen(NamedTuple):
    """The outputs by name; what is not named stays as it is."""

    notice: Any = SKIP
    run: Any = SKIP
    stop: Any = SKIP
    again: Any = SKIP
    grid: Any = SKIP
    table: Any = SKIP
    charts: Any = SKIP
    traces_file: Any = SKIP
    table_file: Any = SKIP


def beginning(methods: Sequence[str]) -> list[dict]:
    """The columns to start with, as many as the pair can fill, and what a fourth would begin with."""
    offered = [column for column in START if column["method"] in methods]
    spare = {"method": AUTO, "auto": True, "gamma": 4, "temperature": 0}
    return [*offered, *[spare] * MOST][:MOST]


def count(methods: Sequence[str]) -> int:
    """How many columns are shown at the start."""
    return max(FEWEST, sum(column["method"] in methods for column in START))


class Compare:
    def __init__(self, service: Service):
        self.service, self.exports = service, Exports()

    # ── controls ──

    def chosen(self, pair: str, *values) -> list:
        """What follows from the pair: the note, and the method list of every column. A column whose method the pair
        lacks takes auto. ``values``: the methods that are chosen."""
        try:
            methods = (AUTO, *self.service.methods(pair))
            reasons = self.service.problems(pair)
        except EngineError as error:
            return [notice("error", str(error)), *[SKIP] * MOST]
        told = notice("error", " ".join(reasons)) if reasons else notice("quiet")
        offered = choices(METHODS, methods)
        return [told, *(gr.update(choices=offered, value=v if v in methods else AUTO) for v in values)]

    @staticmethod
    def added(shown: int) -> list:
        return _shown(min(MOST, shown + 1))

    @staticmethod
    def removed(column: int):
        """A handler that takes one column away: those behind it move up."""

        def handler(shown: int, *values) -> list:
            size, kept = len(OWN), list(values)
            if shown <= FEWEST or column >= shown:
                return [*_shown(shown), *[SKIP] * len(values)]
            del kept[column * size : (column + 1) * size]
            return [*_shown(shown - 1), *kept, *values[column * size : (column + 1) * size]]

        return handler

    # ── runs ──

    def run(self, request: gr.Request, *values) -> Iterator[Screen]:
        """``values``: of SHARED, how many columns are shown, then of OWN for every column there could be."""
        yield from self._run(request, values, again=False)

    def run_again(self, request: gr.Request, *values) -> Iterator[Screen]:
        """As ``run``, but measured anew."""
        yield from self._run(request, values, again=True)

    def stop(self, request: gr.Request) -> None:
        """Ends the runs with the round at hand; the running handler then shows what there is."""
        self.service.stop(experimenter(request))

    def _run(self, request: gr.Request, values, again: bool) -> Iterator[Screen]:
        """Whatever happens, the buttons come back and what was measured stays."""
        made, run = [], uuid.uuid4().hex
        try:
            made = asked(values)
            yield from self._measure(experimenter(request), made, again, run)
        except EngineError as error:
            some = any(column.trace for column in made)
            said = str(error) + (" What had been made by then stays on screen." if some else "")
            yield self._ended(made, run, notice("error", said)) if some else _over(notice("error", said))

    def _measure(self, visitor: str, made: list[Column], again: bool, run: str) -> Iterator[Screen]:
        """``made`` is filled as the runs go, so that a failure loses nothing. ``run``: by which the page knows them."""
        lanes = tuple((f"run {number}", column.config) for number, column in enumerate(made, 1))
        names, filling, feed = [name for name, _ in lanes], [Lane() for _ in lanes], Feed(run)
        begun = late = False
        with closing(self.service.measure(visitor, lanes, again)) as updates:
            for update in updates:
                if isinstance(update, Recording):
                    made[:] = [replace(c, trace=update.lanes[n]) for c, n in zip(made, names, strict=True)]
                    kind, said = view.conclusion(made, ago(time.time() - update.made))
                    yield self._ended(made, run, notice(kind, said), recorded=True)
                    return
                if not begun:
                    begun = True
                    yield _begun(feed, made)
                at, late = names.index(update.lane), late or update.late
                filling[at].add(update.events)
                made[at] = replace(made[at], trace=filling[at].trace)
                yield _following(feed, made, at, update)
        told = notice(*view.conclusion(made))
        yield self._ended(made, run, self._out_of_time() if late else told)

    def _out_of_time(self) -> str:
        seconds = self.service.limits.seconds
        said = f"All runs together may take up to {seconds} s here and these were ended; ask for fewer tokens or runs."
        return notice("error", said)

    def _ended(self, made: list[Column], run: str, told: str, recorded: bool = False) -> Screen:
        """Files are prepared now: a button that fills itself when pressed hands out the file of the runs before."""
        return _over(told)._replace(
            again=gr.update(visible=recorded),
            grid=view.whole(run, made, recorded),
            table=view.table(made),
            charts=view.chart(made),
            **self._written(made),
        )

    def _written(self, made: list[Column]) -> dict[str, Any]:
        if not any(column.trace and column.trace.rounds for column in made):
            return _files(None, None)
        name = "speclens-compare"
        try:
            return _files(*self.exports.texts({f"{name}.zip": view.traces(made), f"{name}.csv": view.to_csv(made)}))
        except (OSError, BadInput):  # a full disk takes the files away, not the page
            gr.Warning("The files of these runs could not be written on the server.")
            return _files(None, None)


def asked(values: Sequence) -> list[Column]:
    """The controls as runs. BadInput says what is wrong, and in which run."""
    shared, (shown, *rest) = dict(zip(SHARED, values, strict=False)), values[len(SHARED) :]
    if type(shown) is not int or not FEWEST <= shown <= MOST:
        raise BadInput(f"Choose {FEWEST} to {MOST} runs.")
    made = []
    for column in range(shown):
        own = dict(zip(OWN, rest[column * len(OWN) : (column + 1) * len(OWN)], strict=True))
        try:
            made.append(Column(settings(shared | own)))
        except BadInput as error:
            wrong = any(name in str(error).lower() for name in ("gamma", "temperature", "method", "draft length"))
            raise BadInput(f"Run {column + 1}: {error}" if wrong else str(error)) from error
    return made


def _shown(number: int) -> list:
    """How many columns there are, each shown or not, and what can still be added or removed."""
    visible = [gr.update(visible=column < number) for column in range(MOST)]
    removable = [gr.update(visible=number > FEWEST)] * MOST
    return [number, *visible, *removable, gr.update(interactive=number < MOST)]


def _begun(feed: Feed, made: list[Column]) -> Screen:
    heads = "".join(view.head(made, lane, "waiting") for lane in range(len(made)))
    return Screen(
        notice("progress", "Starting"),
        gr.update(value="Running…"),  # not disabled: that would drop the keyboard's focus
        gr.update(interactive=True),
        gr.update(visible=False),
        feed.add(view.columns(made) + heads),
        view.table([]),
        view.chart([]),
        **_files(None, None),
    )


def _following(feed: Feed, made: list[Column], at: int, update: Update) -> Screen:
    if update.stage:
        return Screen(notice("progress", update.stage.message, update.stage.fraction))
    ended = any(isinstance(event, RunFinished) for event in update.events)
    lines = view.rounds(at, [event for event in update.events if isinstance(event, Round)])
    # The columns come again, for a page that sees only the last of several values and none of those before it.
    text = feed.add(view.columns(made) + lines + view.head(made, at, "ended" if ended else "running"))
    tokens, most = len(made[at].trace.emitted) if made[at].trace else 0, made[at].config.max_new_tokens
    said = f"Run {at + 1} of {len(made)}, {made[at].name}: {tokens} of up to {most} tokens"
    told = notice("progress", said, (at + min(1.0, tokens / most)) / len(made))
    drawn = {"table": view.table(made), "charts": view.chart(made)} if ended else {}
    return Screen(told, grid=text, **drawn)


def _over(told: str) -> Screen:
    return Screen(told, gr.update(value=RUN), gr.update(interactive=False))


def _files(traces: str | None, table: str | None) -> dict[str, Any]:
    given = {"traces_file": traces, "table_file": table}
    return {name: gr.update(value=path, interactive=path is not None) for name, path in given.items()}
