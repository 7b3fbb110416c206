"""Shows each update of a run at once, so that tests of the page do not wait for what a browser can draw."""

import pytest

import app.jobs.updates


@pytest.fixture(autouse=True)
def updates_at_once(monkeypatch):
    monkeypatch.setattr(app.jobs.updates, "SECONDS_BETWEEN_UPDATES", 0.0)
