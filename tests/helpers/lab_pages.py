"""Helpers for tests of the lab's handlers: a visitor, forms, a worker that runs units of work, and notices."""

import json
from dataclasses import replace
from types import SimpleNamespace

from fake_worker import FakeWorker

from app.jobs.visitor import Session

VISITOR = SimpleNamespace(session_hash="a")
PAIR = "smollm2-135m"


class WorkingWorker(FakeWorker):
    """Runs units of work on ``engine``, under the name of the pair that each asks for; calls ``before`` with the number
    of units so far ahead of each."""

    def __init__(self, engine, before=lambda count: None, **more):
        super().__init__(**more)
        self.real, self.before, self.units = engine, before, 0

    def _engine_for(self, job, config):
        if job.work is None:
            return super()._engine_for(job, config)
        self.units += 1
        self.before(self.units - 1)
        self.real.pair = replace(self.real.pair, name=config.pair)
        return self.real


def form(experiment, *before, **changes) -> list:
    """The values of an experiment's form, with these ``changes``; ``before``: the inputs in front of them."""
    values = {field.name: field.default for field in experiment.fields} | changes
    assert len(values) == len(experiment.fields), "there is no such field"
    return [*before, *values.values()]


# Short work, in place of what each form begins with.
SHORT = {
    "answer": {"tokens": 16},
    "sweep": {"methods": ["ngram"], "gammas": [2], "kinds": ["chat", "code", "maths"], "repeats": 1, "tokens": 8},
    "users": {"methods": ["ngram"], "numbers": "1, 2", "tokens": 8, "repeats": 1},
    "theory": {"method": "lm", "alphas": [0.1, 0.5, 0.9], "gammas": [2], "tokens": 24, "repeats": 1},
    "compare": {"shown": 3, "prompt": "Hi", "tokens": 24},
    "distribution": {"runs": 60},
}


def short_form(name: str, experiment, **changes) -> list:
    """The values of the form of the tab ``name`` for little work, with these ``changes``."""
    session = [Session()] if name == "theory" else []
    return form(experiment, *session, **SHORT[name] | changes)


def notice_of(outputs) -> dict:
    """The notice of an update."""
    return json.loads(outputs.notice)


def rows(table: str) -> list[list[str]]:
    return [[cell for cell, _ in row] for row in json.loads(table)["rows"]]
