"""The routes of “Run it here” on the served page: its files and the model's, isolated, and nothing else."""

import json
import re

import pytest
from fake_worker import FakeEngine
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.jobs.service import Service
from app.playground import engine_status
from app.server.limits import Limits
from app.tab import page as tab_page
from app.tab.offer import TabOffer
from app.tab.package import BESIDE, BrowserEngine
from engine.config import METHODS

HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "x-content-type-options": "nosniff",
}


@pytest.fixture
def service():
    service = Service(FakeEngine(), Limits())
    service.tab = TabOffer(service.engine, service.offer.pair, "none")
    return service


@pytest.fixture
def client(service):
    with TestClient(
        Starlette(routes=[tab_page.route(service.tab), engine_status.route(service, service.tab.is_ready)])
    ) as client:
        yield client


def engine(tmp_path, beside: bool = True) -> BrowserEngine:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    files, page = {"engine/ort.mjs": b"ort", "engine/graph.onnx.gz": b"g"}, {"mostTokens": 256, "address": BESIDE}
    return BrowserEngine(files, page, file if beside else None)


def data(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_nothing_is_served_before_the_engine_is_ready(service, client, tmp_path):
    assert client.get("/_state").json()["tab"] is False
    missing = client.get("/here/tab.html")
    assert missing.status_code == 404 and missing.text == tab_page.ABSENT
    service.tab.engine = engine(tmp_path)
    assert client.get("/_state").json()["tab"] is True
    assert client.get("/here/tab.html").status_code == 200


def test_every_file_of_the_service_worker_is_served_and_isolated(service, client, tmp_path):
    service.tab.engine = engine(tmp_path)
    kept = json.loads(re.search(r"serve\(\S+, (\[.*\])\)", client.get("/here/service_worker.js").text)[1])
    assert {"tab.html", "engine/worker.js", "engine/ort.mjs", "engine/graph.onnx.gz"} == set(kept)
    types = {"html": "text/html", "js": "text/javascript", "mjs": "text/javascript", "gz": "application/octet-stream"}
    for name in (*kept, "service_worker.js"):
        answer = client.get(f"/here/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-type"].split(";")[0] == types[name.rsplit(".", 1)[1]]
        assert "content-encoding" not in answer.headers, "a tab unpacks the .gz files itself"
        assert answer.headers.items() >= HEADERS.items()


def test_model_comes_from_the_disk_and_no_other_file_does(service, client, tmp_path):
    service.tab.engine = engine(tmp_path)
    weights = client.get(f"/here/{BESIDE}")
    assert weights.content == b"weights" and weights.headers["content-length"] == "7"
    for name in ("", "engine", "model.gguf", "%2e%2e/app.py", "/etc/passwd"):
        assert client.get(f"/here/{name}").status_code == 404, name
    service.tab.engine = engine(tmp_path, beside=False)
    assert client.get(f"/here/{BESIDE}").status_code == 404, "of the hub"


def test_page_names_every_method_and_control_of_a_link(service, client, tmp_path):
    service.tab.engine = engine(tmp_path)
    page = data(client.get("/here/tab.html").text)
    assert page["titles"].keys() >= {"auto", *METHODS} and page["methods"] == ["ngram", "none"]
    assert {"top_k", "constraint", "pair"} <= page["absent"].keys()
    assert not {"prompt", "gamma", "auto", "tokens"} & page["absent"].keys()
