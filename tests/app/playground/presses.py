"""Presses Run as a visitor's page does, and reads what the page is sent."""

import json
from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from fake_worker import FakeEngine

from app.form import NAMES, defaults
from app.jobs.service import Service
from app.playground.run_handlers import RunHandlers
from app.playground.run_press import RunPress
from app.server.limits import Limits
from app.ui.widgets import SKIP

FORM = {"prompt": "Hi", "method": "ngram", "auto": False, "gamma": 4, "temperature": 0, "tokens": 40}


def visitor(name="a"):
    return SimpleNamespace(session_hash=name)


BUTTONS = ("run", "stop", "session")


class Screen(NamedTuple):
    """All outputs of a run's three events."""

    stage: Any = SKIP
    run: Any = SKIP
    stop: Any = SKIP
    session: Any = SKIP


def line(update: Screen | str, kind: str) -> dict:
    """The newest line of its type in an update, or in the stage's part of it."""
    stage = update.stage if isinstance(update, Screen) else update
    return [read for read in map(json.loads, stage.splitlines()) if read["type"] == kind][-1]


def status_of(update: Screen | str) -> dict:
    """The status of an update."""
    return {name: value for name, value in line(update, "status").items() if name != "type"}


def page(worker=None, **limits) -> RunHandlers:
    handlers = RunHandlers(Service(FakeEngine(worker), Limits(**limits)))
    handlers.presses = defaultdict(RunPress)  # one for each visitor's page
    return handlers


def form(**changes) -> list:
    values = defaults() | FORM | changes
    return [values[name] for name in NAMES]


def press_run(handlers, who="a", **changes) -> list[Screen]:
    return list(pressed(handlers, who, **changes))


def pressed(handlers, who="a", **changes) -> Iterator[Screen]:
    """Run's three events, as the page chains them; the end repeats the last update."""
    press = handlers.presses[who]
    run, stop = handlers.begin(visitor(who), press)
    screen = Screen(run=run, stop=stop)
    for value in handlers.run(visitor(who), press, *form(**changes)):
        screen = screen._replace(stage=value)
        yield screen
        screen = Screen(value)
    yield screen._replace(**dict(zip(BUTTONS, handlers.end(press), strict=False)))


def player_values(screens) -> list[str]:
    """The values of a run, without those that change the status alone."""
    return [screen.stage for screen in screens if json.loads(screen.stage.splitlines()[0])["run"]]


def lines_read(screens) -> list[dict]:
    """Returns the lines that a page has read in the end: values overlap, and it skips a line that it already has."""
    lines = dict.fromkeys(line for value in player_values(screens) for line in value.splitlines())
    return [line for line in map(json.loads, lines) if line["type"] not in ("start", "status", "numbers")]
