"""A page that opens goes before the model that is being loaded: at each note of progress, and between imports."""

import importlib
import sys
import threading
import time

import pytest
from fake_engine import FakeEngine, ask, rest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app.build import launch_options
from app.courtesy import Courtesy
from app.service import Engine, Limits, Service
from engine.worker import Worker


def seconds(what) -> float:
    began = time.monotonic()
    what()
    return time.monotonic() - began


def test_opening_the_page_holds_the_load():
    service = Service(Engine(), Limits())
    options = launch_options(service)["app_kwargs"]
    routes = [Route("/", lambda request: HTMLResponse(""))]
    client = TestClient(Starlette(routes=routes, middleware=options["middleware"]))
    assert seconds(service.courtesy.wait) < 0.6
    client.get("/")
    assert seconds(service.courtesy.wait) > 0.9


def test_nobody_is_waited_for_where_nobody_comes():
    assert seconds(Courtesy().wait) < 0.6


def test_whoever_opens_the_page_is_waited_for_and_not_for_longer():
    courtesy = Courtesy(to_open=1.0)
    courtesy.opens()
    assert 0.9 < seconds(courtesy.wait) < 10
    assert seconds(courtesy.wait) < 0.6


def test_a_load_is_held_only_so_long_in_all():
    courtesy, held = Courtesy(to_open=60.0, in_all=1.0), 0.0
    for _ in range(4):
        courtesy.opens()
        held += seconds(courtesy.wait)
    assert 0.9 < held < 10


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A name that can be imported anew each time."""
    (tmp_path / "a_piece_to_import.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    def imported():
        sys.modules.pop("a_piece_to_import", None)
        importlib.import_module("a_piece_to_import")

    return imported


def test_imports_wait_on_the_thread_that_loads_alone(module):
    courtesy = Courtesy(to_open=1.0)
    before = list(sys.meta_path)
    with courtesy.while_loading():
        assert sys.meta_path[0] is courtesy
        courtesy.opens()
        assert seconds(module) < 0.6, "this thread has not begun to load"
        loading = threading.Thread(target=courtesy.wait)
        loading.start()
        assert seconds(module) < 0.6, "another thread loads"
        loading.join()
        courtesy.wait()
        courtesy.opens()
        assert 0.9 < seconds(module) < 10
    courtesy.opens()
    assert sys.meta_path == before and seconds(module) < 0.6


def test_an_import_under_way_meets_every_finder():
    """Whoever is on the way through the list when loading begins or ends misses none."""
    courtesy, before = Courtesy(), list(sys.meta_path)
    on_the_way = iter(sys.meta_path)
    first = next(on_the_way)
    with courtesy.while_loading():
        assert [first, *on_the_way] == before
        on_the_way = iter(sys.meta_path)
        passed = [next(on_the_way), next(on_the_way)]
    assert [*passed, *on_the_way] == [courtesy, *before]


def test_a_pause_that_is_taken_away_meanwhile_harms_nobody():
    class Forgetful(Worker):
        """Its pause is there at the first look and gone at the second."""

        looks = 0

        @property
        def pause(self):
            self.looks += 1
            return (lambda: None) if self.looks % 2 else None

        @pause.setter
        def pause(self, pause):
            pass

    worker = Forgetful(loader=lambda config, device, precision, progress: FakeEngine(config.pair))
    rest(ask(worker))
    worker.close()
    assert worker.looks


def test_what_goes_wrong_while_loading_leaves_no_finder_behind():
    before = list(sys.meta_path)
    with pytest.raises(KeyError), Courtesy().while_loading():
        raise KeyError
    assert sys.meta_path == before


def test_the_worker_pauses_before_it_loads_and_at_each_note_of_progress():
    seen = []

    def load(config, device, precision, progress):
        seen.append("load")
        progress(0.5, "half")
        return FakeEngine(config.pair)

    worker = Worker(loader=load)
    worker.pause = lambda: seen.append(threading.current_thread().name)
    rest(ask(worker))
    assert seen == [worker._thread.name, "load", worker._thread.name]
    worker.pause = None
    rest(ask(worker, pair="b"))
    assert seen[3:] == ["load"]
    worker.close()
