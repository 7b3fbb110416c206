"""An operator's numbers: runs and refusals are counted and logged, without their prompts."""

import json
import logging
import time

import pytest
from fake_worker import FakeEngine, FakeWorker, wait_for
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tiny_pairs import model_folder

from app.jobs.baseline import with_baseline
from app.jobs.engine_facade import EngineFacade
from app.jobs.engine_state import State
from app.jobs.run_numbers import log
from app.jobs.service import Service
from app.jobs.updates import Report
from app.page import operator_routes
from app.server.limits import Limits
from app.ui import temp_folder
from engine.config import RunConfig
from engine.errors import EngineError
from engine.runtime.worker import Worker

SECRET = "my landlord's name is Zebedee"


@pytest.fixture
def service():
    return Service(FakeEngine(FakeWorker()), Limits())


@pytest.fixture
def lines(caplog):
    """The log's lines so far, as objects."""
    log.propagate = True
    caplog.set_level(logging.INFO, "speclens.runs")
    return lambda: [json.loads(record.message) for record in caplog.records if record.name == "speclens.runs"]


def client_of(service, **options) -> TestClient:
    return TestClient(Starlette(routes=operator_routes(service)), **options)


def problem_of(service) -> str:
    """Returns why the page is not ready."""
    answer = client_of(service).get("/readyz")
    assert answer.status_code == 503
    return answer.json()["problem"]


def run(service, prompt=SECRET, **more):
    config = RunConfig(prompt, method="ngram", gamma=4, max_new_tokens=20, **more)
    for _ in service.runs.run(service.runs.open("visitor"), with_baseline(config)):
        pass


def counts(service):
    families = text_string_to_metric_families(service.runs.numbers.text().decode())
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


def test_a_run_and_its_baseline_are_counted(service):
    run(service)
    known = counts(service)
    for method in ("ngram", "none"):
        assert known["speclens_runs_total", "length", method] == 1
        assert known["speclens_tokens_total", method] == 20
    (job,) = [job for job in [service.runs.results.get(key) for key in service.runs.results._runs]]
    passes = sum(len(trace.rounds) for trace in job.traces.values())
    assert known["speclens_pass_seconds_count",] == passes
    verify = sum(each.timings.verify for trace in job.traces.values() for each in trace.rounds)
    assert known["speclens_pass_seconds_sum",] == pytest.approx(verify)
    assert known["speclens_tokens_per_second_count",] == 2
    assert known["process_resident_memory_bytes",] > 1e6 and known["speclens_memory_available_bytes",] > 1e6
    assert known["speclens_runs_waiting",] == known["speclens_runs_running",] == 0
    run(service)  # it is shown again
    assert counts(service)["speclens_runs_total", "length", "ngram"] == 1


def test_an_experiments_time_on_the_device_is_counted(service):
    def work(engine, cancelled):
        time.sleep(0.05)
        yield Report("a point")

    request = service.runs.open("visitor")
    assert [each.value for each in service.runs.experiment(request, [work, work]) if isinstance(each, Report)]
    service.runs.close(request)
    wait_for(lambda: counts(service)["speclens_lab_units_total",] == 2)
    assert 0.1 <= counts(service)["speclens_lab_seconds_total",] < 30


def test_runs_that_the_server_ends_are_not_those_that_a_visitor_ends():
    cut = Service(FakeEngine(FakeWorker(step=0.05)), Limits(seconds=0.2))
    run(cut)
    assert counts(cut)["speclens_runs_total", "ngram", "time_limit"] == 1


def test_a_run_whose_visitor_leaves_while_it_waits_is_cancelled(lines):
    service = Service(FakeEngine(FakeWorker(step=0.05)), Limits())
    configs = [with_baseline(RunConfig(SECRET, method=method, max_new_tokens=400)) for method in ("ngram", "lm")]
    first, waiting = (service.runs.run(service.runs.open(each[0][1].method), each) for each in configs)
    while not next(first).events:
        pass
    while not next(waiting).place:
        pass
    service.runs.stop("lm")
    assert not [*waiting] and counts(service)["speclens_runs_total", "cancelled", "lm"] == 1
    service.runs.stop("ngram")
    wait_for(lambda: ("speclens_runs_total", "cancelled", "ngram") in counts(service))
    assert ("speclens_runs_total", "cancelled", "none") not in counts(service), "no baseline began or was waited for"
    assert [(line["method"], line.get("prompt_tokens"), line["tokens"] > 0) for line in lines()] == [
        ("lm", None, False), ("ngram", 0, True),
    ]  # fmt: skip


def test_the_log_has_runs_and_refusals_and_no_prompt(service, lines, caplog):
    run(service)
    with pytest.raises(EngineError):
        run(service, SECRET * 1000)
    first, second, refusal = lines()
    assert first["id"] == second["id"] and (first["name"], second["name"]) == ("run", "baseline")
    assert {"at", "pair", "method", "tokens", "seconds", "tokens_per_second", "rounds", "end"} <= first.keys()
    assert (refusal["event"], refusal["kind"]) == ("refusal", "BadInput")
    assert counts(service)["speclens_refusals_total", "BadInput"] == 1
    assert "Zebedee" not in caplog.text and "Zebedee" not in service.runs.numbers.text().decode()
    assert "lighthouse" not in caplog.text, "no answer either"


def test_probes_and_metrics(service, monkeypatch):
    client = client_of(service)
    assert client.get("/healthz").text == "ok"
    assert client.get("/readyz").json()["state"] in ("asleep", "ready")
    run(service)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain") and "speclens_runs_total" in answer.text
    assert answer.headers["cache-control"] == "no-store"
    service.state.is_warming_up = True
    answer, words = client.get("/readyz"), "The first model is being loaded."
    assert (answer.status_code, answer.json()) == (503, {"state": "loading", "problem": words})
    assert client.get("/healthz").text
    service.state.is_warming_up = False
    wait_for(lambda: client.get("/readyz").status_code == 200)
    monkeypatch.setattr(service.state, "now", lambda: State("loading"))
    assert client.get("/readyz").status_code == 200, "another pair is loaded for a visitor"


def test_probes_and_metrics_answer_at_their_own_paths_alone(service):
    """A proxy that denies a path then denies all of it, also where the page has a root path."""
    client = client_of(service, root_path="/lens", follow_redirects=False)
    for path in ("/metrics", "/readyz", "/healthz"):
        wrong = (f"{path}/", f"/lens{path}", f"/lens{path}/", f"/lens/lens{path}")
        assert [client.get(at).status_code for at in (path, *wrong)] == [200, 404, 404, 404, 404]


def test_a_page_is_not_ready_with_damaged_weights(tmp_path, monkeypatch):
    model_folder(tmp_path / "target")
    damaged = Service(EngineFacade(Worker("cpu")), Limits(pairs=(str(tmp_path / "target"),)))
    with monkeypatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(tmp_path / "target" / "model.safetensors"))
        assert client_of(damaged).get("/readyz").status_code == 200, "no model has to be stored"
    weights = tmp_path / "target" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "is damaged" in problem_of(damaged)
    damaged.engine.worker.close()


@pytest.mark.parametrize("folder", ["file", "/proc/speclens"])
def test_a_page_that_cannot_store_its_model_says_so_everywhere(folder, tmp_path, monkeypatch, capsys):
    """Even where the hub is switched off, because this model comes from PyPI."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("app.jobs.engine_state._SECONDS_FOR_A_VISITOR", 0.0)
    service = Service(EngineFacade(Worker("cpu")), Limits())
    words = "name another cache folder with SPECLENS_CACHE"
    assert words in problem_of(service)
    service.state.warm(service.offer.pair)
    wait_for(lambda: not service.state.is_warming_up)
    assert words in capsys.readouterr().out
    with pytest.raises(EngineError, match=words):
        run(service)
    service.engine.worker.close()


def test_a_page_is_not_ready_where_its_files_cannot_be_stored(service, tmp_path, monkeypatch):
    assert client_of(service).get("/readyz").status_code == 200
    (tmp_path / "file").touch()
    monkeypatch.setenv(temp_folder.VARIABLE, str(tmp_path / "file" / "below"))
    assert "cannot be written" in problem_of(service)
