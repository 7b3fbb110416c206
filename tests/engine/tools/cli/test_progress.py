"""Progress: time left, a bar rewritten in place on a terminal, and few lines in a log."""

from io import StringIO

import pytest
from rich.console import Console

from engine.tools.cli import progress as progress_file
from engine.tools.cli.progress import TimeLeft, progress


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress_file.time, "monotonic", lambda: now[0])
    return now


def screen_of(monkeypatch, **options) -> StringIO:
    out = StringIO()
    monkeypatch.setattr(progress_file, "screen", lambda stderr: Console(file=out, width=120, **options))
    return out


def test_time_left_goes_by_what_was_done_since_the_start():
    for seconds, share, words in (
        (4.0, 0.1, ""),  # too early
        (10.0, 0.0, ""),  # nothing to go by
        (10.0, 0.5, "less than a minute left"),
        (60.0, 0.5, "about 1 minute left"),
        (600.0, 0.2, "about 40 minutes left"),
        (3600.0, 0.25, "about 3 hours left"),
        (3600.0, 1.0, ""),
    ):
        for resumed in (0.0, 0.5):  # what an earlier run did says nothing about the speed
            left = TimeLeft()
            assert left.estimate(resumed, 50.0) == ""
            assert left.estimate(resumed + (1 - resumed) * share, 50.0 + seconds) == words
    left.estimate(0.9, 51.0 + seconds)
    assert left.estimate(0.1, 60.0 + seconds) == "", "a new stage begins anew"
    assert left.estimate(0.2, 160.0 + seconds) == "about 13 minutes left"


def test_a_log_gets_a_line_every_ten_seconds(monkeypatch, clock):
    out = screen_of(monkeypatch)
    with progress() as show:
        for done in range(1, 41):
            show(done / 40, f"{done:,} of 40 replies, {1000 + done} tokens a second")
            clock[0] += 2.0
        show(0.5, "Something else")
        show(0.5, "Something else")
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["1", "6", "11", "16", "21", "26", "31", "36", "40", "Something"]
    assert lines[1] == "6 of 40 replies, 1006 tokens a second, about 1 minute left"


def test_a_log_says_the_same_once(monkeypatch, clock):
    out = screen_of(monkeypatch)
    with progress() as show:
        for _ in range(36):
            show(1.0, "Loading the target")
    assert out.getvalue().splitlines() == ["Loading the target"]


def test_a_terminal_rewrites_one_line_in_place(monkeypatch, clock):
    out = screen_of(monkeypatch, force_terminal=True, color_system=None)
    with progress() as show:
        show(0.0, "0 of 40 replies")
        clock[0] += 30.0
        show(0.25, "10 of 40 replies")
    text = out.getvalue()
    assert "10 of 40 replies, about 2 minutes left" in text and "25%" in text
    assert "\x1b[2K" in text and text.count("\n") <= 3  # erased, and nothing of it stays
