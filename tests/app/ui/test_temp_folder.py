"""The folder for files that visitors save: one of the page's own, tried before the page starts and before each copy."""

import os
import shutil
import tempfile
from collections import namedtuple
from types import SimpleNamespace
from unittest.mock import Mock

import gradio as gr
import pytest
from fake_worker import FakeEngine, recorded

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.page import build
from app.playground.result_handlers import NO_ROOM, Results
from app.playground.run_handlers import RunHandlers
from app.playground.run_press import RunPress
from app.server.limits import Limits
from app.ui import temp_folder
from app.ui.widgets import SKIP
from engine.errors import Unavailable

FULL = namedtuple("usage", "total used free")(10**9, 10**9, 4096)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(temp_folder.VARIABLE, "")  # so that what a test sets is undone
    return tmp_path / "cache"


def blocked(tmp_path):
    """A folder that not even root can make, because its parent is a file."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "below"


def test_the_folder_is_below_the_cache_and_new_each_time(cache):
    first = temp_folder.choose()
    assert first.parent == cache / "tmp" and os.environ[temp_folder.VARIABLE] == str(first)
    os.environ[temp_folder.VARIABLE] = ""
    assert temp_folder.choose() != first
    assert gr.Button().GRADIO_CACHE.startswith(str(cache)), "Gradio copies files to it"


def test_folders_of_servers_long_gone_are_deleted(cache, tmp_path):
    old, new, foreign = (cache / "tmp" / f"{name}" for name in ("speclens-page-old", "speclens-page-new", "page-old"))
    for folder in (old, new, foreign):
        folder.mkdir(parents=True)
    (old / "gone").symlink_to(tmp_path / "nowhere")
    os.utime(old / "gone", (0, 0), follow_symlinks=False)
    note = cache / "tmp" / "speclens-page-note"
    note.write_text("not a folder")
    for path in (old, foreign, note):
        os.utime(path, (0, 0))
    temp_folder.choose()
    assert not old.exists() and new.exists() and foreign.exists() and note.exists()


def test_a_cache_that_cannot_be_written_is_no_obstacle(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(blocked(tmp_path)))
    assert str(temp_folder.choose()).startswith(tempfile.gettempdir())


def test_a_system_without_a_temporary_folder_uses_the_cache_or_says_why(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", Mock(side_effect=FileNotFoundError))
    assert temp_folder.choose().exists()
    monkeypatch.delenv(temp_folder.VARIABLE)
    monkeypatch.setenv("SPECLENS_CACHE", str(blocked(tmp_path)))
    with pytest.raises(Unavailable, match=r"cannot be written to .*GRADIO_TEMP_DIR"):
        temp_folder.choose()


def test_a_folder_that_takes_no_files_is_refused_with_its_reason(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: FULL)
    with pytest.raises(Unavailable, match=r"has only 0\.0 MB free.*GRADIO_TEMP_DIR"):
        temp_folder.choose()
    monkeypatch.setenv(temp_folder.VARIABLE, str(blocked(tmp_path)))  # as an operator named it
    with pytest.raises(Unavailable, match="cannot be written to"):
        temp_folder.choose()


def test_a_disk_that_fills_up_takes_the_files_and_leaves_the_charts(cache, monkeypatch):
    temp_folder.choose()
    page = Results(Service(FakeEngine(), Limits()))
    session = Session(recorded(tokens=20), recorded("none", 0, 20))
    assert page.show(session).trace_file["value"]
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: FULL)
    shown = page.show(session)
    assert shown.trace_file["value"] is None and shown.trace_file["label"] == NO_ROOM and shown.race is not SKIP
    monkeypatch.undo()
    assert page.show(session).trace_file["label"] == "Save trace (JSON)"


def test_run_comes_back_with_a_reason_when_its_last_event_fails(cache, tmp_path, monkeypatch):
    handlers, press, result = RunHandlers(Service(FakeEngine(), Limits())), RunPress(), Session(recorded(tokens=20))
    handlers.begin(SimpleNamespace(session_hash="a"), press)
    handlers.service.runs.close(press.request)
    press.session = result
    assert handlers.end(press)[2] is result  # and then Gradio fails on the files
    monkeypatch.setenv(temp_folder.VARIABLE, str(blocked(tmp_path)))
    run, stop, session, stage = handlers.show_failure(press)
    assert run["value"] == "Run" and stop["interactive"] is False and session is result
    assert "did not arrive" in stage and "cannot be written" in stage


def test_every_last_event_has_an_answer_to_its_failure():
    """Each event that shows a run's files is followed by one for the case that Gradio cannot copy them."""
    demo = build(Service(FakeEngine(), Limits()))
    ends = [
        fn for fn in demo.fns.values() if getattr(fn.fn, "__name__", "") in ("show_failure", "RunHandlers.show_failure")
    ]
    assert len(ends) >= 5 and all(fn.trigger_after is not None and fn.trigger_only_on_failure for fn in ends)
