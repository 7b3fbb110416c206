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


ALL = 1e9  # of the time a page takes to open: so much rest for so little work


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, duration: float) -> None:
        assert duration >= 0
        self.now += duration

    def waited(self, courtesy: Courtesy) -> float:
        began = self.now
        courtesy.wait()
        return pytest.approx(self.now - began)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("app.courtesy.time", clock)
    return clock


def test_opening_the_page_holds_the_load(clock):
    service = Service(Engine(), Limits())
    options = launch_options(service)["app_kwargs"]
    routes = [Route("/", lambda request: HTMLResponse(""))]
    client = TestClient(Starlette(routes=routes, middleware=options["middleware"]))
    assert clock.waited(service.courtesy) == 0
    client.get("/")
    clock.now += 0.25
    assert clock.waited(service.courtesy) == 0.5


def test_nobody_is_waited_for_where_nobody_comes(clock):
    courtesy = Courtesy()
    for _ in range(3):
        clock.now += 5
        assert clock.waited(courtesy) == 0


def test_while_a_page_opens_so_much_work_so_much_rest(clock):
    courtesy = Courtesy(to_open=10.0, rest=2.0)
    clock.now += 5  # at work before anybody comes
    courtesy.wait()
    clock.now += 1
    courtesy.opens()
    clock.now += 0.5
    assert clock.waited(courtesy) == 1.0, "of the work since then"
    assert clock.waited(courtesy) == 0, "no work, no rest"
    clock.now += 0.25
    assert clock.waited(courtesy) == 0.5


def test_the_next_visitor_takes_back_no_rest(clock):
    courtesy = Courtesy(to_open=1.0, rest=2.0)
    courtesy.opens()
    clock.now += 0.25
    courtesy.opens()
    assert clock.waited(courtesy) == 0.5


def test_the_end_of_a_load_waits_for_nobody(clock):
    courtesy = Courtesy()
    with courtesy.while_loading():
        courtesy.wait()
        courtesy.opens()
        clock.now += 0.25
        ended = clock.now
    assert clock.now == ended


def test_nobody_is_waited_for_who_has_opened_it(clock):
    courtesy = Courtesy(to_open=1.0, rest=2.0)
    courtesy.opens()
    clock.now += 0.75
    assert clock.waited(courtesy) == 0.25
    clock.now += 3
    assert clock.waited(courtesy) == 0


def test_visitors_without_a_pause_cost_a_load_no_more_than_its_share(clock):
    courtesy, began = Courtesy(to_open=1.0, rest=2.0), clock.now
    courtesy.wait()
    for _ in range(30):
        courtesy.opens()
        clock.now += 0.1
        courtesy.wait()
    assert clock.now - began == pytest.approx(30 * 0.3)


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
    courtesy = Courtesy(to_open=1.0, rest=ALL)
    before = list(sys.meta_path)
    with courtesy.while_loading():
        assert list(sys.meta_path) == before
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
    assert sys.meta_path == before and type(sys.meta_path) is list and seconds(module) < 0.6


def test_whoever_serves_the_page_imports_meanwhile(module):
    """To hold an import must not be to hold all: gradio looks for matplotlib at every event."""
    courtesy, held = Courtesy(to_open=1.5, rest=ALL), threading.Event()

    def load():
        courtesy.wait()
        courtesy.opens()
        held.set()
        with pytest.raises(ImportError):
            importlib.import_module("a_piece_that_is_nowhere")

    with courtesy.while_loading():
        loading = threading.Thread(target=load)
        loading.start()
        held.wait()
        time.sleep(0.2)
        assert seconds(module) < 0.6 and loading.is_alive()
        loading.join()


def test_an_import_under_way_meets_every_finder():
    """Whoever is on the way through the list when loading begins or ends misses none."""
    courtesy, before = Courtesy(), list(sys.meta_path)
    on_the_way = iter(sys.meta_path)
    first = next(on_the_way)
    with courtesy.while_loading():
        assert [first, *on_the_way] == before
        on_the_way = iter(sys.meta_path)
        passed = [next(on_the_way), next(on_the_way)]
    assert [*passed, *on_the_way] == before


def test_a_finder_that_comes_while_loading_stays(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    late = type("Late", (), {"find_spec": lambda *_: None})()
    with Courtesy().while_loading():
        sys.meta_path.append(late)
    assert sys.meta_path[-1] is late


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


def test_what_goes_wrong_while_loading_leaves_nothing_behind():
    before = list(sys.meta_path)
    with pytest.raises(KeyError), Courtesy().while_loading():
        raise KeyError
    assert sys.meta_path == before and type(sys.meta_path) is list


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
