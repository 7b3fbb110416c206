"""Helpers for tests of the lab's handlers: a visitor, the forms, a worker that runs units of work, and notices."""

import json
from types import SimpleNamespace

from fake_worker import FakeWorker

from app.form import defaults
from app.jobs.visitor import Session
from app.lab.compare.handlers import OWN, SHARED, beginning
from app.lab.distribution.handlers import CONTROLS, NAMES

VISITOR = SimpleNamespace(session_hash="a")
PAIR = "smollm2-135m"


class WorkingWorker(FakeWorker):
    """Runs units of work on ``engine``; calls ``before`` with the number of units so far ahead of each."""

    def __init__(self, engine, before=lambda count: None, **more):
        super().__init__(**more)
        self.real, self.before, self.units = engine, before, 0

    def _engine_for(self, job, config):
        if job.work is None:
            return super()._engine_for(job, config)
        self.units += 1
        self.before(self.units - 1)
        return self.real


def sweep_form(**changes) -> list:
    values = {
        "pair": PAIR, "methods": ["ngram"], "gammas": ["2"], "temperatures": [0.0],
        "categories": ["chat", "code", "maths"], "each": 1, "own": "", "repeats": 1, "tokens": 6,
    } | changes  # fmt: skip
    return list(values.values())


def users_form(**changes) -> list:
    values = {
        "pair": PAIR, "methods": ["ngram"], "users": "1, 2", "gamma": "2", "contexts": ["short"], "tokens": 6,
        "repeats": 1,
    } | changes  # fmt: skip
    return list(values.values())


def theory_form(session=None, **changes) -> list:
    values = {"pair": PAIR, "method": "lm", "alphas": [0.1, 0.5, 0.9], "gammas": [2], "tokens": 24, "repeats": 1}
    return [session or Session(), *(values | changes).values()]


def compare_form(shown=3, own=None, **changes) -> list:
    """``own``: by number of the column, what differs from the start."""
    shared = defaults() | {"tokens": 24, "prompt": "Hi"} | changes
    columns = [dict(start) for start in beginning(("none", "ngram", "lm"))]
    for number, values in (own or {}).items():
        columns[number] |= values
    return [*(shared[name] for name in SHARED), shown, *(column[name] for column in columns for name in OWN)]


def rule_form(**changes) -> list:
    start = {control.name: control.default for control in CONTROLS} | {"runs": 60} | changes
    return [start[name] for name in NAMES]


def said(outputs) -> dict:
    """The notice of an update."""
    return json.loads(outputs.notice)


def rows(table: str) -> list[list[str]]:
    return [[cell for cell, _ in row] for row in json.loads(table)["rows"]]
