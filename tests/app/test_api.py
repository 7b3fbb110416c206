"""The endpoints for programs, as functions and once through a real client: plain values, refusals as sentences."""

import gzip
import inspect
import json
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from types import SimpleNamespace
from unittest.mock import Mock

import gradio as gr
import pytest
from fake_worker import FakeEngine, FakeWorker, wait_for
from fastapi import FastAPI
from gradio_client import Client
from starlette.testclient import TestClient
from tiny_pairs import model_folder

from app.api.endpoints import FROM_PAGE, Api, SentenceError
from app.api.http import http_routes
from app.api.openapi import ALIASES, ARGUMENTS
from app.form import CONSTRAINT_CONTROLS, defaults, settings
from app.jobs.engine_facade import EngineFacade
from app.jobs.service import Service
from app.page import build, launch_options
from app.server.limits import Limits
from engine.config import Constraint
from engine.errors import QueueFull
from engine.runtime.worker import Worker
from engine.trace.trace import from_json

pytestmark = pytest.mark.xdist_group("api")


def served(worker=None, **limits) -> Api:
    return Api(Service(FakeEngine(worker), Limits(**limits)))


def who(name="a"):
    return SimpleNamespace(session_hash=name)


def test_run_streams_and_ends_with_text_figures_and_both_traces():
    told = list(served(FakeWorker(step=0.005)).run(who(), "Hi", method="ngram", gamma=4, tokens=60))
    text, figures, trace = told[-1]
    assert figures["status"] == "finished" and figures["tokens"] == 60 and figures["speedup"] > 1
    run, baseline = (from_json(json.dumps(trace[lane])) for lane in ("run", "baseline"))
    assert run.text == text and len(baseline.emitted) == 60
    assert all(trace is None for _, _, trace in told[:-1]) and told[0][1]["status"] == "waiting"
    json.dumps(told)


def test_the_same_run_again_is_recorded_unless_measured_anew(monkeypatch):
    worker = FakeWorker()
    api = served(worker)
    first = list(api.run(who(), "Hi", tokens=20))[-1]
    again = list(api.run(who("b"), "Hi", tokens=20))
    assert len(again) == 1 and again[0][1]["status"] == "recorded" and again[0][0] == first[0]
    assert again[0][1]["seconds_ago"] >= 0 and again[0][2] == first[2] and len(worker.runs) == 2
    with monkeypatch.context() as patch:
        patch.setattr("time.time", lambda: 0.0)  # the clock was set back
        assert list(api.run(who("b"), "Hi", tokens=20))[-1][1]["seconds_ago"] == 0
    assert list(api.run(who("b"), "Hi", tokens=20, again=True))[-1][1]["status"] == "finished"
    assert len(worker.runs) == 4


def test_a_run_takes_one_constraint_in_any_of_four_forms():
    worker = FakeWorker()
    forms = [{"json_schema": {"type": "integer"}, "compact_json": True}, {"json_schema": "true"}, {"regex": "a+"},
             {"choice": ["yes", "no"]}, {"grammar": 'start: "a"', "method": "grammar"}]  # fmt: skip
    for form in forms:
        assert list(served(worker).run(who(), "Hi", tokens=4, **form))[-1][1]["status"] == "finished"
    own = list(dict.fromkeys(config.constraint for config in worker.runs))  # a run and its baseline have the same
    expected = [("json_schema", '{"type": "integer"}', True), ("json_schema", "true"), ("regex", "a+"),
                ("choice", "yes\nno"), ("grammar", 'start: "a"')]  # fmt: skip
    assert own == [Constraint(*one) for one in expected]
    wrong = {"takes one constraint": {"regex": "a", "choice": ["b"]}, "choice must be a text": {"choice": [1]},
             "regex must be a text": {"regex": 5}, "json_schema must be an object or its text": {"json_schema": 5},
             "add a constraint": {"method": "grammar"},
             "JSON schema is empty": {"json_schema": ""}, "choice is empty": {"choice": []}}  # fmt: skip
    for words, form in wrong.items():
        with pytest.raises(gr.Error, match=words):
            next(served().run(who(), "Hi", **form))


def test_a_constraint_that_cannot_be_followed_is_a_sentence(tmp_path):
    """The sentence comes from a real engine, whose worker goes on."""
    model_folder(tmp_path / "target")
    pair = str(tmp_path / "target")
    api = Api(Service(EngineFacade(Worker("cpu")), Limits(pairs=(pair,))))
    settings = {"pair": pair, "method": "ngram", "form": "raw", "tokens": 60}
    wrong = {
        "Unsatisfiable": {"json_schema": False}, "became too complex": {"regex": "(a{1,1000}){50,1000}"},
        "60 are allowed": {"choice": [20 * "the cat and "]},
    }  # fmt: skip
    for words, form in wrong.items():
        with pytest.raises(gr.Error, match=words):
            list(api.run(who(), "aaa", **settings, **form))
            pytest.fail(f"{form} was taken")
    *_, (text, figures, _) = api.run(who(), "aaa", **settings, choice=["the cat"])
    assert text == "the cat" and figures["status"] == "finished"
    api.service.engine.worker.close()


def test_every_control_is_an_argument():
    """gamma None is the control ``auto``, and each constraint has an argument of its own, which is at first empty."""
    arguments = inspect.signature(Api.run).parameters
    assert set(defaults()) - {"auto", "constraint"} <= set(arguments)
    apart = {"prompt", "auto", "gamma", *FROM_PAGE, *CONSTRAINT_CONTROLS}
    assert all(arguments[name].default == value for name, value in defaults().items() if name not in apart)


def test_arguments_by_position_keep_their_meaning():
    """Gradio's client may send them without names."""
    values = ("Hi", "thinker", "lookahead", 3, 0.5, 7, 9, "raw", "off", "Be", 5, 0.9, 0.1, 1.1, "auto", "typical",
              0.2, 0.4, 3, 2, 6, True, True, {"type": "integer"}, True, "", None, "")  # fmt: skip
    worker = FakeWorker()
    list(served(worker).run(who(), *values))
    assert worker.runs[0] == settings({
        "prompt": "Hi", "pair": "thinker", "method": "lookahead", "auto": False, "gamma": 3, "temperature": 0.5,
        "seed": 7, "tokens": 9, "form": "raw", "thinking": "off", "system": "Be", "top_k": 5, "top_p": 0.9,
        "min_p": 0.1, "repetition_penalty": 1.1, "acceptance": "typical", "epsilon": 0.2, "delta": 0.4, "window": 3,
        "ngram_size": 2, "guesses": 6, "constraint": "json_schema", "json_schema": '{"type": "integer"}',
    })  # fmt: skip


def test_arguments_that_are_left_out_keep_to_this_servers_limits():
    api = served(new_tokens=20)
    _, _, trace = list(api.run(who(), "Hi", method="ngram"))[-1]
    assert trace["run"]["started"]["config"]["max_new_tokens"] == 20
    assert list(api.bench(who(), "Hi"))[-1][0]["status"] == "finished"


def test_a_lossy_run_says_so():
    settings = {"method": "ngram", "tokens": 10, "acceptance": "typical", "epsilon": 0.2}
    for temperature in (0.0, 0.8):
        _, figures, trace = list(served().run(who(), "Hi", temperature=temperature, **settings))[-1]
        assert figures["lossy"] == (temperature > 0) == ("lossy" in trace["run"]) and "lossy" not in trace["baseline"]
        assert trace["run"]["started"]["config"]["epsilon"] == 0.2


def test_bench_compares_every_method_with_plain_decoding():
    status, rows = list(served().bench(who(), "Hi", tokens=20))[-1]
    assert status["status"] == "finished"
    assert [row["method"] for row in rows] == ["none", "ngram", "lm"]
    assert rows[0]["speedup"] == 1 and all(row["speedup"] > 1 for row in rows[1:])


def test_a_run_that_takes_too_long_says_so():
    _, figures, trace = list(served(FakeWorker(step=0.05), seconds=0.2).run(who(), "Hi", tokens=500))[-1]
    assert figures["status"] == "stopped" and "0.2 s" in figures["message"] and trace["run"]


def test_a_whole_run_whose_baseline_was_cut_is_finished():
    worker = FakeWorker(step=0.05)
    _, figures, _ = list(served(worker, seconds=1.5).run(who(), "Hi", method="ngram", gamma=4, tokens=60))[-1]
    assert figures["status"] == "finished" and figures["tokens"] == 60 and figures["speedup"] is None
    assert "baseline was ended" in figures["message"]


def test_figures_have_their_interval_and_say_what_else_ran():
    _, figures, _ = list(served(FakeWorker(step=0.005)).run(who(), "Hi", method="ngram", gamma=4, tokens=60))[-1]
    assert figures["low"] < figures["speedup"] < figures["high"] and figures["noise"] is False and "busy" in figures


def test_no_speedup_is_given_where_other_programs_took_too_much(monkeypatch):
    monkeypatch.setattr("app.api.endpoints.others_share", lambda *runs: 0.741)
    _, figures, _ = list(served().run(who(), "Hi", method="ngram", gamma=4, tokens=60))[-1]
    assert figures["speedup"] is figures["low"] is figures["high"] is None and figures["noise"] is False
    assert figures["busy"] == 0.741 and figures["tokens_per_second"] > 0 and "took 74\u00a0% of" in figures["notes"][-1]
    _, rows = list(served().bench(who(), "Hi", tokens=20))[-1]
    assert [row["speedup"] for row in rows] == [1, None, None] and not rows[0]["notes"], "plain decoding is the unit"
    monkeypatch.setattr("app.api.endpoints.others_share", lambda *runs: 0.149)
    assert list(served().run(who(), "Hi", method="ngram", gamma=4, tokens=60))[-1][1]["speedup"] > 1


def test_a_replaced_request_says_why_it_ended():
    api = served(FakeWorker(step=0.02))
    first = api.run(who(), "Hi", tokens=200)
    while next(first)[1]["status"] != "running":
        pass
    list(api.run(who(), "Ho", tokens=10))
    *_, (_, figures, _) = first
    assert figures["status"] == "stopped" and "took its place" in figures["message"]


@pytest.mark.slow
@pytest.mark.timing
def test_a_waiting_request_is_heard_of_every_second():
    api = served(FakeWorker(step=0.05))
    busy = api.run(who("a"), "Hi", tokens=400, alone=True)
    while next(busy)[1]["status"] != "running":
        pass
    waiting = api.run(who("b"), "Ho", tokens=10, alone=True)
    start = time.monotonic()
    places = [next(waiting)[1] for _ in range(4)]
    assert [each["status"] for each in places] == ["waiting"] * 4 and time.monotonic() - start < 6
    waiting.close()
    busy.close()


def test_a_refusal_before_the_queue_is_counted():
    api = served()
    with pytest.raises(gr.Error, match="from 0 to"):
        list(api.run(who(), "Hi", gamma=99))
    assert 'speclens_refusals_total{kind="BadInput"} 1.0' in api.service.runs.numbers.text().decode()


def posted(url: str, body, path="api/run", method="POST", **headers: str) -> tuple[int, str]:
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | headers
    request = urllib.request.Request(f"{url}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_run_over_http_takes_names(url):
    status, text = posted(url, {"prompt": "Hello", "method": "ngram", "gamma": 4, "max_new_tokens": 12})
    answer = json.loads(text)
    assert status == 200 and answer["figures"]["status"] == "finished" and answer["figures"]["tokens"] == 12
    assert from_json(json.dumps(answer["trace"]["run"])).text == answer["text"]
    status, text = posted(url, {"prompt": "Hello there", "tokens": 30, "stream": True})
    lines = [json.loads(line) for line in text.splitlines()]
    assert status == 200 and len(lines) > 1 and lines[-1]["trace"] and not lines[0]["trace"]


def test_a_wrong_request_over_http_is_refused_in_a_sentence(url):
    for body, words in (
        (b"{", "must be a JSON object"), (b"[" * 20_000 + b"]" * 20_000, "nested too deeply"),
        (b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}", "thousands of digits"),
        ('{"prompt": "张三"}'.encode("gbk"), "is not in UTF-8"),
        ({"tokens": 3}, '"prompt"'),
        ({"prompt": "a", "gama": 1}, "no argument 'gama'"), ({"prompt": "a", "messages": []}, "not OpenAI's API"),
        ({"prompt": "a", "gamma": 99}, "from 0 to"), ({"prompt": "a", "pair": "../.."}, "does not offer the pair"),
        ({"prompt": "a", "tokens": "many"}, "Tokens|tokens"), ({"prompt": "a", "stream": "yes"}, "stream must be true"),
        ({"prompt": "a", "again": 1}, "again must be true"), ({"prompt": "a", "choice": []}, "The choice is empty"),
        ({"prompt": "a", "tokens": 5, "max_new_tokens": 6}, "are one argument"),
    ):  # fmt: skip
        status, text = posted(url, body)
        assert status == 400 and re.search(words, json.loads(text)["error"]), text


@pytest.mark.parametrize(("status", "words", "request_"), [
    (404, "POST a JSON object to /api/run", {"path": "api/runs"}),
    (404, "POST a JSON object to /api/run", {"path": "api/", "method": "GET"}),
    *((405, "takes POST", {"method": method}) for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS")),
    (413, "more than 1,000,000 bytes", {"body": b"x" * 3_000_000}),
    (400, "is not in UTF-8", {"body": gzip.compress(b'{"prompt": "a"}'), "Content-Encoding": "gzip"}),
    *((415, "Content-Type: application/json", {"body": {"prompt": "a"}, "Content-Type": kind})
      for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", "")),
    (400, "Temperature|temperature", {"body": {"prompt": "a", "temperature": None}}),
    (400, "temperature|Temperature", {"body": {"prompt": "a", "temperature": {"of": 1}}}),
])  # fmt: skip
def test_every_refusal_over_http_is_the_same_json(url, status, words, request_):
    code, text = posted(url, **{"body": None} | request_)
    refusal = json.loads(text)
    assert code == status and list(refusal) == ["error"] and re.search(words, refusal["error"]), text


def test_a_bug_over_http_is_the_server_s_and_not_the_client_s(monkeypatch):
    service = Service(FakeEngine(FakeWorker()), Limits())
    monkeypatch.setattr(service.offer, "check_models", Mock(side_effect=ZeroDivisionError))
    with TestClient(FastAPI(routes=http_routes(service))) as client:
        answer = client.post("/api/run", json={"prompt": "Ho"})
    assert answer.status_code == 500 and "unexpected error ended this run (ZeroDivisionError)" in answer.json()["error"]


def test_a_full_queue_over_http_may_be_tried_again():
    service = Service(FakeEngine(FakeWorker(step=0.2)), Limits(queue=1))
    with TestClient(FastAPI(routes=http_routes(service))) as client:
        api, others = Api(service), []
        for name in ("a", "b"):
            others.append(api.run(who(name), f"Hi {name}", tokens=400, alone=True))
            next(others[-1]), next(others[-1])
        answer = client.post("/api/run", json={"prompt": "Ho", "alone": True})
        for each in others:
            each.close()
    assert answer.status_code == 503 and "queue is full" in answer.json()["error"]
    assert 'kind="QueueFull"' in service.runs.numbers.text().decode()


def test_one_address_over_http_leaves_half_of_the_queue_to_others():
    service = Service(FakeEngine(FakeWorker(step=0.2)), Limits(queue=4))
    api, client = Api(service), SimpleNamespace(session_hash="c", address="9.9.9.9")
    mine = [api.run(SimpleNamespace(session_hash=f"a{i}", address="1.1.1.1"), f"Hi {i}", tokens=400) for i in range(2)]
    for each in mine:
        next(each)
    refused = SimpleNamespace(session_hash="a", address="1.1.1.1")
    with pytest.raises(SentenceError, match="2 requests from your address are open already") as caught:
        next(api.run(refused, "Ho", tokens=400))
    assert isinstance(caught.value.error, QueueFull)
    others = [api.run(visitor, "Ho", tokens=400) for visitor in (client, who("page"), who("another page"))]
    for each in others:
        next(each)
    mine.pop().close()
    again = api.run(refused, "Ho", tokens=400)
    next(again)
    for each in (*mine, *others, again):
        each.close()


def test_the_address_of_a_request_over_http_counts():
    service = Service(FakeEngine(FakeWorker()), Limits(queue=1))
    with TestClient(FastAPI(routes=http_routes(service)), client=("1.1.1.1", 5)) as client:
        with service.runs.request("another", "1.1.1.1"):
            answer = client.post("/api/run", json={"prompt": "Ho"})
            assert answer.status_code == 503 and "from your address" in answer.json()["error"]
        assert client.post("/api/run", json={"prompt": "Ho", "tokens": 4}).status_code == 200


def test_openapi_describes_the_run(url):
    with urllib.request.urlopen(f"{url}openapi.json") as answer:
        described = json.load(answer)
    run = described["paths"]["/api/run"]["post"]
    request = run["requestBody"]["content"]["application/json"]["schema"]
    assert request["required"] == ["prompt"] and set(request["properties"]) == {*ARGUMENTS, *ALIASES, "stream"}
    assert all(each.get("description") for name, each in request["properties"].items())
    assert request["properties"]["gamma"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert described["info"]["title"] == "SpecLens" and set(run["responses"]) >= {"200", "4XX", "503"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_over_http_ends_when_its_client_goes(url, service, stream):
    """The server has to look, because nothing is sent before the end if the answer is not streamed."""
    address = urllib.parse.urlsplit(url)
    body = json.dumps({"prompt": f"Gone, {stream}", "tokens": 400, "alone": True, "stream": stream}).encode()
    head = f"POST /api/run HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((address.hostname, address.port)) as client:
        client.sendall(head.encode() + body)
        wait_for(lambda: service.engine.worker.running)
        before = cancelled_runs(service)
    wait_for(lambda: cancelled_runs(service) > before)


def cancelled_runs(service: Service) -> float:
    counts = re.findall(r'speclens_runs_total{.*end="cancelled".*} (.*)', service.runs.numbers.text().decode())
    return sum(map(float, counts))


@pytest.fixture(scope="module")
def service() -> Service:
    return Service(FakeEngine(FakeWorker(step=0.01)), Limits())


@pytest.fixture(scope="module")
def url(service):
    demo = build(service)
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **launch_options(service))
    yield url
    demo.close()


def test_only_the_curated_endpoints_can_be_called(url):
    client = Client(url, verbose=False)
    named = client.view_api(return_format="dict", print_info=False)
    assert set(named["named_endpoints"]) == {"/run", "/pairs", "/bench"} and not named["unnamed_endpoints"]
    text, figures, trace = client.predict("Hello", tokens=12, api_name="/run")
    assert figures["status"] == "finished" and from_json(json.dumps(trace["run"])).text == text
    pairs = {pair["name"]: pair for pair in client.predict(api_name="/pairs")}
    assert pairs["giant"]["reasons"] and not pairs["smollm2-135m"]["reasons"]
    assert pairs["thinker"]["download_bytes"] > 1e9
    with pytest.raises(Exception, match="does not offer the pair"):
        client.predict("Hello", pair="../..", api_name="/run")
    with urllib.request.urlopen(f"{url}_state") as answer:
        assert json.load(answer)["kind"] in ("loading", "ready", "busy")
        assert "no-store" in answer.headers["cache-control"]
