"""A constraint that cannot be used says why beside its controls, before a run and after one that it has ended."""

import json

import pytest
from fake_worker import FakeEngine

from app.form import NAMES, defaults
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground.after_run import AfterRun
from app.playground.constraint_note import constraint_note
from app.playground.link_handlers import LinkHandlers
from app.playground.result_handlers import Results
from app.server.limits import Limits
from app.ui.widgets import SKIP


class StrictEngine(FakeEngine):
    def constraint_problem(self, config):
        return "The regular expression cannot be used: look-ahead." if "(?=" in config.constraint.text else ""


@pytest.fixture
def service() -> Service:
    return Service(StrictEngine(), Limits())


def form(**values) -> list:
    return list((defaults() | values).values())


def note(service: Service, **values) -> tuple[str, str]:
    said = json.loads(constraint_note(service, *form(**values)))
    return said["kind"], said["text"]


def test_note_has_the_engines_sentence_and_no_other_controls(service):
    assert note(service) == ("quiet", "")
    assert note(service, prompt="", constraint="regex", regex="a+") == ("quiet", "")
    assert note(service, regex="(?=a)") == ("quiet", ""), "it does not count"
    kind, text = note(service, constraint="json_schema", json_schema="{")
    assert kind == "error" and text.startswith("The JSON schema cannot be read as JSON")
    refused = ("error", "The regular expression cannot be used: look-ahead.")
    assert note(service, constraint="regex", regex="(?=a)") == refused


def test_a_run_that_its_constraint_has_ended_says_so_beside_it(service):
    after = AfterRun(service, Results(service), LinkHandlers(service))
    values = form(constraint="regex", regex="(?=a)")
    after_failure = after.following(lambda: ["Run", SKIP], *values)
    assert len(after_failure) == 2 + AfterRun.OUTPUTS and after_failure[2:-2] == [SKIP] * (AfterRun.OUTPUTS - 2)
    assert "look-ahead" in after_failure[-2] and after_failure[-1] is SKIP
    after_run = after.following(lambda: ["Run", Session()], *form())
    assert len(after_run) == len(after_failure) and json.loads(after_run[-2])["text"] == ""
    assert len(values) == len(NAMES)
