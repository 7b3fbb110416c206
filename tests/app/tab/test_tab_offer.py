"""“Run it here” on the served page: prepared once a model is loaded and nothing runs; else one sentence in the log."""

import pytest
from fake_worker import FakeEngine, FakeWorker, wait_for
from tiny_pairs import model_folder

from app.jobs.engine_facade import EngineFacade
from app.jobs.remote import RemoteWorker
from app.jobs.service import Service
from app.page import launch_options
from app.server.limits import Limits
from app.tab import offer as tab_offer
from app.tab.package import BrowserEngine
from engine.config import RunConfig
from engine.errors import BadInput
from engine.runtime.worker import Worker

ENGINE = BrowserEngine({}, {})


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch):
    monkeypatch.setattr(tab_offer, "_SECONDS_BETWEEN_LOOKS", 0.01)


@pytest.fixture
def service(monkeypatch):
    """Serves a made-up engine that has files for a tab; ``requests`` lists the pairs asked for, and from where."""
    service = Service(FakeEngine(FakeWorker(load=0.2, step=0.05)), Limits(tab="hub"))
    service.requests = []
    monkeypatch.setattr(tab_offer, "browser_engine", lambda *request: service.requests.append(request) or ENGINE)
    service.tab = tab_offer.TabOffer(service.engine, service.offer.pair, service.limits.tab)
    return service


def test_files_are_made_once_a_model_is_loaded_and_nothing_runs(service):
    worker, facade = service.engine.worker, service.engine
    service.tab.prepare()
    job = worker.submit([("run", RunConfig("Hi", method="ngram", max_new_tokens=40))])
    wait_for(lambda: worker.running and facade.device())
    assert not service.requests and service.tab.engine is None, "a run is under way"
    job.wait()
    wait_for(lambda: service.tab.engine is ENGINE)
    assert service.requests == [("smollm2-135m", "hub")]


def test_operator_can_switch_it_off(service):
    service.tab.weights = "none"
    service.tab.prepare()
    service.engine.worker.submit([("run", RunConfig("Hi", max_new_tokens=4))]).wait()
    assert service.tab.engine is None and not service.requests


def refusal(facade: EngineFacade, capsys, pair: str = "smollm2-135m") -> str:
    """Returns the log of a page that cannot offer it."""
    facade.device = lambda: "cpu"
    offer = tab_offer.TabOffer(facade, pair, "beside")
    offer._prepare()
    assert offer.engine is None
    return capsys.readouterr().out


def test_page_that_offers_none_says_why_in_one_line(tmp_path, capsys):
    model_folder(tmp_path / "target")
    log = refusal(EngineFacade(Worker("cpu")), capsys, str(tmp_path / "target"))
    assert log.startswith("The page does not offer “Run it here”: ") and log.count("\n") == 1
    assert "from one GGUF file" in log
    assert "loaded by other processes" in refusal(EngineFacade(RemoteWorker()), capsys)


def test_page_with_an_unknown_setting_does_not_start(monkeypatch):
    monkeypatch.setenv("SPECLENS_TAB", "perhaps")
    with pytest.raises(BadInput, match="SPECLENS_TAB is 'perhaps'; set it to hub, beside, none, or not at all"):
        launch_options(Service(FakeEngine(FakeWorker())))


@pytest.mark.parametrize(("host", "weights"), [(None, "none"), ("localhost", "none"), ("0.0.0.0", "beside")])
def test_page_that_others_reach_offers_a_tab(monkeypatch, host, weights):
    for name in ("SPECLENS_TAB", "HOST", "GRADIO_SERVER_NAME", "SPACE_ID"):
        monkeypatch.delenv(name, raising=False)
    if host:
        monkeypatch.setenv("HOST", host)
    assert Limits.from_env().tab == weights
