"""The share of the cores that other programs take, on counts made by hand and beside a real program."""

import subprocess
import sys
import time

import pytest

from engine.runtime.other_programs import OtherPrograms

BURN = "import time\nend = time.time() + 30\nwhile time.time() < end: pass"


def counted(monkeypatch, threads: int, cores: int, seconds: float, busy: float, own: float) -> float | None:
    counts = iter([(0.0, 0.0, 0.0, cores), (seconds, busy, own, cores)])
    monkeypatch.setattr(OtherPrograms, "_counts", lambda self: next(counts))
    return OtherPrograms(threads).share


def test_only_cores_that_were_not_left_for_us_count(monkeypatch):
    assert counted(monkeypatch, 2, 2, 10.0, busy=20.0, own=10.0) == 0.5
    assert counted(monkeypatch, 2, 2, 10.0, busy=20.0, own=20.0) == 0.0
    assert counted(monkeypatch, 2, 8, 10.0, busy=60.0, own=10.0) == 0.0, "5 of 8 cores are others', and we need 2"
    assert counted(monkeypatch, 4, 8, 10.0, busy=80.0, own=20.0) == 0.5
    assert counted(monkeypatch, 2, 2, 0.1, busy=0.2, own=0.0) is None, "too short to count"


@pytest.mark.timing
def test_a_program_that_computes_beside_us_is_seen():
    pytest.importorskip("resource")
    with subprocess.Popen([sys.executable, "-c", BURN]) as other:
        try:
            time.sleep(0.3)  # its start
            # One thread for each core, so that all it takes is taken from us.
            seen = OtherPrograms(OtherPrograms(1)._start[3])
            time.sleep(1.0)
            share = seen.share
        finally:
            other.kill()
    assert share > 0.3 / seen._start[3], "it wants a whole core, and gets a third of one on the busiest machine"
