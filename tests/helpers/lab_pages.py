"""Helpers for tests of the lab's handlers: a visitor, a worker that runs units of work, and what a page shows."""

import json
from types import SimpleNamespace

from fake_worker import FakeWorker

from app.jobs.engine_facade import EngineFacade
from app.lab.experiment import SKIP
from engine.runtime.worker import Worker

VISITOR = SimpleNamespace(session_hash="a")


class WorkingWorker(FakeWorker):
    """Runs units of work on ``engine``; calls ``before`` with the number of units so far ahead of each."""

    def __init__(self, engine, before=lambda count: None):
        super().__init__()
        self.real, self.before, self.units = engine, before, 0

    def _engine_for(self, job, config):
        if job.work is None:
            return super()._engine_for(job, config)
        self.units += 1
        self.before(self.units - 1)
        return self.real


class Tiny(EngineFacade):
    """The real engine and worker, for a pair of folders."""

    def __init__(self):
        super().__init__(Worker("cpu"))


def said(outputs) -> dict:
    """The notice of an update."""
    return json.loads(outputs.notice)


def notices(updates) -> list[str]:
    return [said(update)["text"] for update in updates if update.notice is not SKIP]


def rows(table: str) -> list[list[str]]:
    return [[cell for cell, _ in row] for row in json.loads(table)["rows"]]
