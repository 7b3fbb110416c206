"""Shares one tiny engine among the tests of the benchmarks, with costs measured into a cache of its own; and a busy
machine."""

from dataclasses import replace

import pytest

from engine.runtime import calibration
from engine.runtime.engine import load_engine


@pytest.fixture(scope="module")  # not of the session, which would leave its cache folder to all later tests
def engine(tiny_pair, tmp_path_factory):
    """A random target, and a draft of its first layer: its guesses are accepted now and rejected then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield load_engine(tiny_pair, "cpu", "fp32")


@pytest.fixture
def calibrations(engine, tmp_path, monkeypatch) -> list:
    """Makes the machine so busy that every run would calibrate again. Returns what grows with each calibration."""
    calls, measure = [], calibration.measure
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "_costs", {})
    monkeypatch.setattr(engine, "_calibrations", {})
    monkeypatch.setattr(
        calibration, "measure", lambda *args, **more: calls.append(1) or replace(measure(*args, **more), spread=9.0)
    )
    assert not engine.costs("none").steady and calls
    return calls
